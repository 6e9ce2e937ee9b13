#!/usr/bin/env python3
"""`monograph run` as a user meets it.

Usage: run_test.py MONOGRAPH ALL_REDUCE_LOOP [TEST...]
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

MONOGRAPH, LOOP = sys.argv[1:3]
PRINT_ENVIRONMENT = 'echo "$RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR $OMP_NUM_THREADS"'


def is_running(tag):
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if tag.encode() in (folder / "cmdline").read_bytes():
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                if state not in "ZX":
                    return True
        except OSError:
            pass
    return False


def wait_until(condition, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


class RunTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.logs = pathlib.Path(self.folder.name) / "logs"
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("SLURM_", "MONOGRAPH_", "OMP_", "MASTER_"))
        }

    def tearDown(self):
        self.folder.cleanup()

    def command(self, *words):
        return [MONOGRAPH, "run", "--log-dir", str(self.logs), *words]

    def run_job(self, *words, **variables):
        return subprocess.run(
            self.command(*words),
            env=dict(self.environment, **variables),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def start_job(self, *words):
        return subprocess.Popen(
            self.command(*words),
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def test_ranks_get_their_environment_and_logs(self):
        cores = os.sysconf("SC_NPROCESSORS_ONLN")
        job = self.run_job("--nproc-per-node", "3", "--", "sh", "-c", PRINT_ENVIRONMENT)
        self.assertEqual(job.returncode, 0, job.stderr)
        for rank in range(3):
            line = f"{rank}/3 {rank}/3 127.0.0.1 {max(1, cores // 3)}"
            self.assertIn(f"[{rank}] {line}\n", job.stdout)
            self.assertEqual((self.logs / f"rank_{rank}.log").read_text(), line + "\n")

    def test_threads_stay_as_the_user_set_them(self):
        job = self.run_job("--", "sh", "-c", PRINT_ENVIRONMENT, OMP_NUM_THREADS="5")
        self.assertIn("0/1 0/1 127.0.0.1 5", job.stdout)

    def test_ranks_of_the_second_host_are_numbered_on(self):
        job = self.run_job(
            *"--nproc-per-node 2 --nnodes 2 --node-rank 1 --master-addr 127.0.0.1".split(),
            *["--master-port", "29400", "--", "sh", "-c", "echo $RANK of $WORLD_SIZE at $MASTER_PORT"],
            MONOGRAPH_JOB_TOKEN="secret",
        )
        self.assertIn("[2] 2 of 4 at 29400", job.stdout)
        self.assertIn("[3] 3 of 4 at 29400", job.stdout)

    def test_a_verb_runs_this_program(self):
        job = self.run_job("--nproc-per-node", "2", "--", "compile", "--help")
        self.assertEqual(job.returncode, 0, job.stderr)
        self.assertIn("[1] usage: monograph compile", job.stdout)

    def test_ranks_meet(self):
        job = self.run_job("--nproc-per-node", "3", "--", LOOP, "50")
        self.assertEqual(job.returncode, 0, job.stdout + job.stderr)
        self.assertIn("[2] sum ok by", job.stdout)

    def test_the_failing_rank_is_named_with_its_cause(self):
        job = self.run_job("--nproc-per-node", "3", "--", LOOP, "50", "victim=1", "at=9", "do=throw")
        self.assertEqual(job.returncode, 2)
        self.assertIn("failed: rank 1 exited with status 2: error: the planted fault", job.stderr)
        self.assertIn("error: [all_reduce] #", (self.logs / "rank_0.log").read_text())

    def test_the_exit_status_is_that_of_the_rank_at_fault(self):
        for what, status, words in [
            ("exit", 3, "rank 0 exited with status 3"),
            ("abort", 134, "rank 0 was killed by signal 6 (SIGABRT)"),
            ("kill", 137, "rank 0 was killed by signal 9 (SIGKILL)"),
        ]:
            job = self.run_job("--nproc-per-node", "2", "--", LOOP, "50", "victim=0", "at=7", f"do={what}")
            self.assertEqual(job.returncode, status, what)
            self.assertIn(words, job.stderr)

    def test_a_stopped_rank_is_named(self):
        words = ["--nproc-per-node", "2", "--timeout", "3", "--", LOOP, "50"]
        job = self.run_job(*words, "victim=1", "at=7", "do=stop")
        self.assertEqual(job.returncode, 75)
        self.assertIn("failed: rank 1 is not answering: stopped", job.stderr)

    def test_a_rank_that_is_stopped_outside_collectives_is_named(self):
        job = self.run_job(
            *["--nproc-per-node", "2", "--timeout", "2", "--"],
            *["sh", "-c", "[ $RANK = 0 ] || kill -STOP $$"],
        )
        self.assertEqual(job.returncode, 75)
        self.assertIn("failed: rank 1 is not answering: a signal stopped it 2 s ago", job.stderr)

    def test_an_absent_rank_is_named(self):
        words = ["--nproc-per-node", "2", "--timeout", "3", "--", LOOP, "50"]
        job = self.run_job(*words, "victim=1", "at=7", "do=absent")
        self.assertEqual(job.returncode, 75)
        self.assertIn("failed: rank 1 is alive but did not call it: its last was #", job.stderr)

    def test_flight_records_are_read_by_logs(self):
        words = ["--nproc-per-node", "3", "--timeout", "3", "--", LOOP, "50"]
        self.run_job(*words, "victim=1", "at=7", "do=absent")
        records = sorted(path.name for path in self.logs.glob("flight_recorder_rank_*.json"))
        self.assertEqual(records, [f"flight_recorder_rank_{rank}.json" for rank in range(3)])
        logs = subprocess.run(
            [MONOGRAPH, "logs", str(self.logs)], capture_output=True, text=True, check=False
        )
        self.assertEqual(logs.returncode, 1, logs.stdout + logs.stderr)
        self.assertIn("rank 1", logs.stdout)
        self.assertIn("all_reduce", logs.stdout)

    def test_signals_are_passed_on(self):
        for number, status in [(signal.SIGINT, 130), (signal.SIGTERM, 143)]:
            tag = f"tag={uuid.uuid4()}"
            job = self.start_job("--nproc-per-node", "2", "--", LOOP, "100000000", tag, "pause=1")
            self.assertTrue(wait_until(lambda: is_running(tag)))
            self.assertIn("step 0", job.stdout.readline() + job.stdout.readline() + job.stdout.readline())
            job.send_signal(number)
            output, _ = job.communicate(timeout=60)
            self.assertEqual(job.returncode, status, output)
            self.assertFalse(is_running(tag))

    def test_nothing_outlives_a_killed_launcher(self):
        tag = f"outlives-{uuid.uuid4()}"
        # The rank's own child would outlive the rank: the kernel kills only the launcher's children.
        script = f"sh -c 'sleep 600; : {tag}' & echo started; sleep 600; : {tag}"
        job = self.start_job("--nproc-per-node", "2", "--", "sh", "-c", script)
        self.assertIn("started", job.stdout.readline())
        self.assertIn("started", job.stdout.readline())
        job.kill()
        job.wait()
        self.assertTrue(wait_until(lambda: not is_running(tag)))
        job.stdout.close()

    def test_children_of_a_rank_that_ends_are_killed(self):
        tag = f"left-{uuid.uuid4()}"
        job = self.run_job("--", "sh", "-c", f"sh -c 'sleep 600; : {tag}' & exit 0")
        self.assertEqual(job.returncode, 0)
        self.assertTrue(wait_until(lambda: not is_running(tag)))

    def test_bad_settings_are_errors(self):
        for words, variables, message in [
            (["--nproc-per-node", "2"], {}, "nothing to run: give the command after --"),
            (["--nproc-per-node", "0", "--", "true"], {}, "--nproc-per-node 0 is out of range"),
            (["--", "no-such-program"], {}, "cannot run 'no-such-program': No such file"),
            (["--nnodes", "2", "--", "true"], {}, "--nnodes 2 needs --node-rank"),
            (["--nnodes", "2", "--node-rank", "2", "--", "true"], {}, "--node-rank 2 is out of range"),
            (["--nnodes", "2", "--node-rank", "0", "--", "true"], {}, "needs --master-addr"),
            (
                "--nnodes 2 --node-rank 0 --master-addr 127.0.0.1 --master-port 9 -- true".split(),
                {},
                "a job of 2 hosts needs a secret: set MONOGRAPH_JOB_TOKEN",
            ),
            (["--", "true"], {"RANK": "1"}, "this process is itself a rank"),
            (
                ["--nnodes", "2", "--node-rank", "0", "--", "true"],
                {"SLURM_NNODES": "3"},
                "--nnodes 2 contradicts the environment's SLURM_NNODES=3",
            ),
            (["--master-addr", "192.0.2.1", "--", "true"], {}, "cannot listen on 192.0.2.1"),
        ]:
            job = self.run_job(*words, **variables)
            self.assertEqual(job.returncode, 2, words)
            self.assertIn(message, job.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
