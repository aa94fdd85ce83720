#!/usr/bin/env python3
"""Checks a TFJob against the models of Kubeflow's client: what they read and write again must be
the same, so no field is unknown, and none has another type. Writes its pods to a file, for the
schemas of Kubernetes.

  kubernetes_pods.py MANIFESTS PODS
"""
import copy
import json
import sys

import yaml
from kubeflow.training import ApiClient


class Answer:
    def __init__(self, value):
        self.data = json.dumps(value)


def fits(job):
    client = ApiClient()
    try:
        model = client.deserialize(Answer(job), "KubeflowOrgV1TFJob")
    except (ValueError, TypeError, AttributeError):
        return False
    return client.sanitize_for_serialization(model) == job


def main():
    jobs = [d for d in yaml.safe_load_all(open(sys.argv[1])) if d["kind"] == "TFJob"]
    assert len(jobs) == 1, "one TFJob"
    job = jobs[0]
    if not fits(job):
        sys.exit("the TFJob does not fit the models of kubeflow-training")
    wrong = copy.deepcopy(job)
    wrong["spec"]["runPolicy"]["cleanPods"] = "Running"
    assert not fits(wrong), "a wrong field is found"
    assert job["spec"]["runPolicy"]["cleanPodPolicy"] == "Running"
    pods = []
    for role, replica in job["spec"]["tfReplicaSpecs"].items():
        assert role in ("Chief", "PS", "Worker", "Evaluator"), role
        assert replica["restartPolicy"] == "ExitCode", role
        pod = dict(replica["template"], apiVersion="v1", kind="Pod")
        pod["metadata"] = {"name": role.lower()}
        assert pod["spec"]["containers"][0]["name"] == "tensorflow", role
        pods.append(pod)
    with open(sys.argv[2], "w") as out:
        yaml.safe_dump_all(pods, out)


main()
