#!/usr/bin/env python3
"""Plays Kubeflow's training operator with deploy/kubernetes/tfjob/tfjob.yaml, with processes in
place of pods: TF_CONFIG, the environment and the commands are the manifest's, and names are
addresses of loopback. A pod that ends with 128 or more (or by a signal) is started again under
its name, another code fails the job, and when the chief has succeeded, the other pods get
SIGTERM and, after their grace, SIGKILL (cleanPodPolicy Running).

The chief is the click example. Kills a worker, a ps and the chief amidst training. Then a job
whose ps is given a wrong option must fail.

  tests/engines/tfjob.py [BUILD]      BUILD: build/Release; needs python3-yaml

Prints a line for the table in docs/engines.md.
"""
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

import yaml

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
BIN = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else ROOT + "/build/Release") + "/bin"
AGAIN = 128  # exit codes from here on: start the pod again
EXAMPLES, AUC = 600000, 0.90
DEADLINE_S = 300


class Pod:
    def __init__(self, job, role, index, spec):
        self.job, self.role, self.index = job, role.lower(), index
        self.name = f"{job.name}-{self.role}-{index}"
        self.container = spec["containers"][0]
        self.grace_s = spec["terminationGracePeriodSeconds"]
        self.starts = 0
        self.code = None  # of its last end; None: it runs
        self.log = os.path.join(job.dir, self.name + ".log")

    def start(self):
        job = self.job
        environment = {
            "PATH": BIN + ":/usr/bin:/bin",
            "HOSTNAME": self.name,
            "TF_CONFIG": json.dumps({
                "cluster": job.addresses,
                "task": {"type": self.role, "index": self.index},
                "environment": "cloud",
            }),
        }
        for variable in self.container.get("env", []):
            environment[variable["name"]] = variable["value"]
        environment.update(COX_KEY_FILE=job.key, TMPDIR=job.dir)
        if os.geteuid() == 0:  # a pod has a user without rights
            environment.update(COX_PS_USER="root", COX_WORKER_USER="root")
        environment.update(job.extra.get(self.role, {}))
        command = [
            word.replace("=/checkpoints", "=" + job.dir)
            for word in self.container["command"]
        ]
        if self.role == "chief":
            command = job.chief
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True)
        self.starts += 1
        self.code = None

    def poll(self):
        """The exit code as a container has it, if the process has ended now."""
        if self.code is not None or self.process.poll() is None:
            return None
        code = self.process.returncode
        self.code = code if code >= 0 else AGAIN - code
        return self.code

    def kill(self, signum):
        os.killpg(self.process.pid, signum)

    def delete(self):
        """SIGTERM, and SIGKILL after the grace; returns the exit code."""
        if self.code is not None:
            return self.code
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(self.grace_s)
        except subprocess.TimeoutExpired:
            self.kill(signal.SIGKILL)
            self.process.wait()
        return self.poll()


class Job:
    def __init__(self, directory, manifest, chief, extra):
        self.dir, self.chief, self.extra = directory, chief, extra
        self.name = manifest["metadata"]["name"]
        assert manifest["spec"]["runPolicy"]["cleanPodPolicy"] == "Running"
        self.key = os.path.join(directory, "run.key")
        subprocess.run([BIN + "/coxswain", "key", "new", self.key], check=True,
                       stdout=subprocess.DEVNULL)
        replicas = manifest["spec"]["tfReplicaSpecs"]
        self.addresses = {
            role.lower(): [free_address() for _ in range(replica["replicas"])]
            for role, replica in replicas.items()
        }
        self.pods = []
        for role, replica in replicas.items():
            assert replica["restartPolicy"] == "ExitCode"
            self.pods += [
                Pod(self, role, index, replica["template"]["spec"])
                for index in range(replica["replicas"])
            ]

    def pod(self, role, index):
        return next(p for p in self.pods if (p.role, p.index) == (role, index))

    def run(self, on_turn):
        """Until the chief has succeeded ("Succeeded") or a pod has failed for good."""
        until = time.monotonic() + DEADLINE_S
        for pod in self.pods:
            pod.start()
        while time.monotonic() < until:
            for pod in self.pods:
                code = pod.poll()
                if code is not None and code >= AGAIN:
                    pod.start()
                elif code == 0 and pod.role == "chief":
                    return "Succeeded"
                elif code:
                    return f"Failed: {pod.name} exited with {code}"
            on_turn(self)
            time.sleep(0.05)
        return "the time is over"

    def clean(self):
        return {pod.name: pod.delete() for pod in self.pods}


def free_address():
    """An address of loopback of its own, as each pod has one, with a free port."""
    host = "127.%d.%d.%d" % tuple(random.randint(1, 254) for _ in range(3))
    with socket.socket() as listener:
        listener.bind((host, 0))
        return "%s:%d" % (host, listener.getsockname()[1])


def read(path):
    with open(path, errors="replace") as file:
        return file.read()


class Killer:
    """Kills one pod after the other: the next one once an epoch is over after the last kill."""

    def __init__(self):
        self.left = [("worker", 1), ("ps", 0), ("chief", 0)]
        self.epochs = 0
        self.killed = []

    def __call__(self, job):
        epochs = read(job.pod("chief", 0).log).count("event=epoch_done")
        if self.left and epochs > self.epochs:
            self.epochs = epochs
            role, index = self.left.pop(0)
            pod = job.pod(role, index)
            if pod.code is None:
                pod.kill(signal.SIGKILL)
                self.killed.append(pod)


def trains(directory, manifest):
    made = directory + "/made"  # a local run makes the rows
    subprocess.run([BIN + "/ctr", "--rows", str(EXAMPLES // 6), "--ids", "5", "--pairs", "1",
                    "--epochs", "1", "--out", made], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    chief = [BIN + "/ctr", "--train", made + "/train.libsvm", "--valid", made + "/valid.libsvm",
             "--model", "fm", "--resume", "--checkpoints", "4", "--out", directory + "/out"]
    killer = Killer()
    job = Job(directory, manifest, chief, {})
    try:
        ended = job.run(killer)
    finally:
        codes = job.clean()
    said = read(job.pod("chief", 0).log)
    results = [line for line in said.splitlines() if line.startswith('{"examples"')]
    if ended != "Succeeded" or not results:
        sys.exit(f"{ended}\n{said[-3000:]}")
    result = json.loads(results[-1])
    assert [p.name for p in killer.killed] == ["coxswain-worker-1", "coxswain-ps-0", "coxswain-chief-0"]
    assert all(p.starts == (2 if p in killer.killed else 1) for p in job.pods), \
        {p.name: p.starts for p in job.pods}
    left = {name: code for name, code in codes.items() if name != "coxswain-chief-0"}
    assert all(code == AGAIN + signal.SIGTERM for code in left.values()), left
    assert result["auc"] >= AUC, result
    # the last client counts its own examples; the data set counts those of all clients
    records = re.findall(r"in all epochs so far: (\d+) records, 0 tasks failed", said)
    assert records and int(records[-1]) == EXAMPLES, records
    return result


def fails_for_good(directory, manifest):
    job = Job(directory, manifest, ["sleep", "600"], {"ps": {"COX_PS_MEMORY_MAX": "much"}})
    try:
        ended = job.run(lambda _: None)
    finally:
        job.clean()
    assert ended.startswith("Failed: coxswain-ps-") and ended.endswith("exited with 2"), ended


def main():
    manifest = yaml.safe_load(read(ROOT + "/deploy/kubernetes/tfjob/tfjob.yaml"))
    with tempfile.TemporaryDirectory() as directory:
        result = trains(directory, manifest)
    with tempfile.TemporaryDirectory() as directory:
        fails_for_good(directory, manifest)
    print("| TFJob's operator, played | its rules as of v1.9 | `tests/engines/tfjob.py` | a worker, a ps, the chief | "
          "%d examples, AUC %.3f; SIGTERM ends each daemon with 143; a wrong option fails the job |"
          % (EXAMPLES, result["auc"]))


main()
