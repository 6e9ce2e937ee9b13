#pragma once

#include <string>
#include <string_view>

namespace monograph::diagnose {

// Text that is safe inside XML and HTML.
std::string escape_xml(std::string_view text);

// Writes one <svg> element, shape by shape. Units are pixels; y grows downwards.
class Svg {
 public:
  Svg(double width, double height);

  void text(double x, double y, std::string_view text, double size,
            std::string_view anchor = "start", std::string_view colour = "#222");
  // A filled rectangle; `hint` shows when pointed at.
  void bar(double x, double y, double width, double height, std::string_view colour,
           std::string_view hint);
  void line(double x1, double y1, double x2, double y2, std::string_view colour, double width = 1);
  // From one point to another, leaving and arriving horizontally.
  void curve(double x1, double y1, double x2, double y2, std::string_view colour, double width,
             std::string_view hint);
  // Ticks from 0 to `range` below a chart.
  void axis(double x, double y, double width, double range, std::string_view unit);

  std::string finish();

 private:
  std::string svg_;
};

}  // namespace monograph::diagnose
