#include "diagnose/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace monograph::diagnose {

std::string escape_xml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? ' ' : c;
    }
  }
  return out;
}

Svg::Svg(double width, double height) {
  // In a narrow window a wide drawing scrolls before it becomes too small to read.
  constexpr double kLeastWidth = 680;
  svg_ = fmt::format(
      "<svg viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "style=\"min-width:{2:.0f}px\" font-family=\"system-ui,sans-serif\">\n",
      width, height, std::min(width, kLeastWidth));
}

void Svg::text(double x, double y, std::string_view text, double size, std::string_view anchor,
               std::string_view colour) {
  svg_ += fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" text-anchor=\"{}\" fill=\"{}\">{}</text>\n",
      x, y, size, anchor, colour, escape_xml(text));
}

void Svg::bar(double x, double y, double width, double height, std::string_view colour,
              std::string_view hint) {
  svg_ += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"2\" fill=\"{}\">"
      "<title>{}</title></rect>\n",
      x, y, width, height, colour, escape_xml(hint));
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view colour, double width) {
  svg_ += fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
      "stroke-width=\"{}\"/>\n",
      x1, y1, x2, y2, colour, width);
}

void Svg::curve(double x1, double y1, double x2, double y2, std::string_view colour, double width,
                std::string_view hint) {
  const double middle = (x1 + x2) / 2;
  svg_ += fmt::format(
      "<path d=\"M{:.1f},{:.1f} C{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}\" fill=\"none\" "
      "stroke=\"{}\" stroke-width=\"{:.1f}\" stroke-opacity=\"0.65\"><title>{}</title></path>\n",
      x1, y1, middle, y1, middle, y2, x2, y2, colour, width, escape_xml(hint));
}

void Svg::axis(double x, double y, double width, double range, std::string_view unit) {
  line(x, y, x + width, y, "#999");
  // A round step that gives about eight ticks.
  const double raw = range / 8;
  const double power = std::pow(10, std::floor(std::log10(std::max(raw, 1e-12))));
  const double step = power * (raw / power < 2 ? 2 : raw / power < 5 ? 5 : 10);
  for (double at = 0; at <= range * 1.0001; at += step) {
    const double tick = x + width * at / range;
    line(tick, y, tick, y + 4, "#999");
    text(tick, y + 17, fmt::format("{:.6g} {}", at, unit), 11, "middle", "#666");
  }
}

std::string Svg::finish() {
  return svg_ + "</svg>\n";
}

}  // namespace monograph::diagnose
