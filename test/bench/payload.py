# SPDX-License-Identifier: Apache-2.0
"""Makes admission reviews as an API server writes them: compact JSON, Go's escapes, managedFields, and names and uids
that differ from one document to the next, so that no cache learns the bytes by heart."""
import json
import uuid

SMALL_BYTES = 6400
BIG_BYTES = 41000
DOCUMENTS = 64


def go_json(value):
    """Compact JSON with the escapes of Go's encoder."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    for char, escape in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"), ("\u2028", "\\u2028")):
        text = text.replace(char, escape)
    return text.encode()


def uid_of(*parts):
    return str(uuid.uuid5(uuid.NAMESPACE_OID, "/".join(str(p) for p in parts)))


def container(index, variables):
    env = [{"name": f"TRAIN_OPTION_{i}", "value": f"--rate=0.{i:03d} & a<b > /data/out-{i}.log"} for i in
           range(variables)]
    return {
        "name": f"worker-{index}",
        "image": f"registry.example.com/training/tensorflow:2.{index}-gpu",
        "command": ["python", "/workspace/train.py"],
        "args": ["--epochs", "90", "--batch-size", "256", "--data", "/data/imagenet", "--resume"],
        "env": env,
        "resources": {"limits": {"bitfusion.io/gpu-amount": "1", "bitfusion.io/gpu-percent": "10", "cpu": "4",
                                 "memory": "16Gi"},
                      "requests": {"bitfusion.io/gpu-amount": "1", "bitfusion.io/gpu-percent": "10", "cpu": "4",
                                   "memory": "16Gi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"},
                         {"name": "kube-api-access-x7k2p", "readOnly": True,
                          "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {"allowPrivilegeEscalation": False, "runAsNonRoot": True,
                            "capabilities": {"drop": ["ALL"]}},
    }


def fields_of(item):
    """The fieldsV1 of a container."""
    owned = {".": {}}
    for key in item:
        owned["f:" + key] = {}
    owned["f:env"] = {".": {}}
    for entry in item["env"]:
        owned["f:env"][f'k:{{"name":"{entry["name"]}"}}'] = {".": {}, "f:name": {}, "f:value": {}}
    return owned


def pod(number, containers, variables):
    items = [container(i, variables) for i in range(containers)]
    name = f"imagenet-{number:03d}"
    owned = {"f:metadata": {"f:annotations": {".": {}, "f:auto-management/bitfusion": {}}},
             "f:spec": {"f:containers": {f'k:{{"name":"{c["name"]}"}}': fields_of(c) for c in items},
                        "f:dnsPolicy": {}, "f:restartPolicy": {}, "f:schedulerName": {}, "f:volumes": {".": {}}}}
    return {
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {
            "name": name, "namespace": f"team-{number % 7}", "uid": uid_of("pod", number, containers),
            "creationTimestamp": "2026-01-15T08:30:00Z",
            "labels": {"app.kubernetes.io/name": "imagenet", "app.kubernetes.io/instance": name},
            "annotations": {"auto-management/bitfusion": "all", "bitfusion-client/os": "ubuntu18",
                            "bitfusion-client/version": "400"},
            "managedFields": [{"manager": "kubectl-create", "operation": "Update", "apiVersion": "v1",
                               "time": "2026-01-15T08:30:00Z", "fieldsType": "FieldsV1", "fieldsV1": owned}]},
        "spec": {
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "imagenet"}},
                {"name": "kube-api-access-x7k2p", "projected": {"defaultMode": 420, "sources": [
                    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                    {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {
                        "apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}}]}}],
            "containers": items, "restartPolicy": "Never", "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst", "serviceAccountName": "default", "serviceAccount": "default",
            "securityContext": {}, "schedulerName": "default-scheduler",
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
                             "tolerationSeconds": 300},
                            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute",
                             "tolerationSeconds": 300}],
            "priority": 0, "enableServiceLinks": True, "preemptionPolicy": "PreemptLowerPriority"},
        "status": {"phase": "Pending", "qosClass": "Burstable"}}


def review_of(item, number):
    meta = item["metadata"]
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    resource = {"group": "", "version": "v1", "resource": "pods"}
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {
        "uid": uid_of("review", number, meta["uid"]), "kind": kind, "resource": resource, "requestKind": kind,
        "requestResource": resource, "name": meta["name"], "namespace": meta["namespace"], "operation": "CREATE",
        "userInfo": {"username": "system:serviceaccount:ci:runner", "uid": uid_of("user"),
                     "groups": ["system:serviceaccounts", "system:serviceaccounts:ci", "system:authenticated"],
                     "extra": {"authentication.kubernetes.io/pod-name": ["runner-5d9c7"]}},
        "object": item, "oldObject": None, "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "kubectl-create",
                    "fieldValidation": "Strict"}}}


def reviews(target_bytes, containers, count=DOCUMENTS):
    """count reviews (objects) whose text is about target_bytes long."""
    variables = 0
    while len(go_json(review_of(pod(0, containers, variables + 1), 0))) <= target_bytes:
        variables += 1
    return [review_of(pod(n, containers, variables), n) for n in range(count)]


def small(count=DOCUMENTS):
    return reviews(SMALL_BYTES, 1, count)


def big(count=DOCUMENTS):
    return reviews(BIG_BYTES, 4, count)


def validate_reviews(originals, answers):
    """What the validating hook is asked after the patches in answers were applied to originals."""
    import jsonpatch  # Debian's python3-jsonpatch; only this needs it
    found = []
    for number, (review, patch) in enumerate(zip(originals, answers)):
        found.append(review_of(jsonpatch.JsonPatch(patch).apply(review["request"]["object"]), number))
    return found


def pool_text(servers=8, gpus=64):
    """A pool that holds every pod above: GPUServer documents."""
    return "".join(f"""---
apiVersion: poolgate.io/v1alpha1
kind: GPUServer
metadata: {{name: gpu-{n:02d}}}
spec:
  address: 10.0.0.{n + 1}:56001
  gpus: [{{model: Tesla V100-PCIE-16GB, memory: 16160Mi, count: {gpus}}}]
""" for n in range(servers))


def sized(target_bytes, count):
    """count reviews of about that many bytes, from 2 KB on: one container whose variables and managedFields make up the size."""
    def one(number, variables):
        item = pod(number, 1, variables)
        item["spec"]["volumes"] = item["spec"]["volumes"][:1]
        item["spec"]["containers"][0]["volumeMounts"] = item["spec"]["containers"][0]["volumeMounts"][:1]
        for unused in ("status",):
            del item[unused]
        for unused in ("tolerations", "enableServiceLinks", "preemptionPolicy", "priority", "serviceAccount"):
            del item["spec"][unused]
        owned = item["metadata"]["managedFields"]
        if variables < 4:
            owned.clear()
        review = review_of(item, number)
        if variables < 4:
            del review["request"]["userInfo"]["extra"], review["request"]["options"]
        return review

    one_more = len(go_json(one(0, 101))) - len(go_json(one(0, 100)))
    variables = max(1, (target_bytes - len(go_json(one(0, 4)))) // one_more + 4)
    while variables > 1 and len(go_json(one(0, variables))) > target_bytes:
        variables -= 1 if variables < 200 else variables // 200
    return [one(number, variables) for number in range(count)]
