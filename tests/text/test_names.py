"""Names of machines and people are found; what only looks a little like one is left alone."""

from __future__ import annotations

import pytest

from cockpit.text.names import names_in
from tests.growing import grows_with_its_size

NAMED = {
    "host=node-23 is lost": ["node-23"],
    "connection to gpu-a17.cluster.internal:29500 refused": ["gpu-a17.cluster.internal"],
    "tpu-vm-7 and t1v-n-1a2b3c4d-w-0 wait": ["tpu-vm-7", "t1v-n-1a2b3c4d-w-0"],
    "NodeList=nid[001234-001237] of gpu-a[1-4]": ["nid[001234-001237]", "gpu-a[1-4]"],
    "user carol pressed stop": ["carol"],
    "user=dave owner: erin": ["dave", "erin"],
    '{"hostname": "trainbox-3", "username": "frank"}': ["trainbox-3", "frank"],
    "ssh -p 22 gpubox": ["gpubox"],
    "scp carol@gpu-box:run.log .": ["carol", "gpu-box"],
    "(raylet, ip=10.0.0.3) died": ["10.0.0.3"],
    "gid ::ffff:10.44.3.17, peer 2001:db8::7": ["::ffff:10.44.3.17", "2001:db8::7"],
    "gpu12:4711:4799 [0] NCCL INFO Bootstrap": ["gpu12"],
    "Nov 22 05:12:11 deepbox kernel: Out of memory": ["deepbox"],
    "slurmstepd: error: *** JOB 17 ON c3 CANCELLED AT 2026": ["c3"],
    "srun: error: influ2: task 0: Out Of Memory": ["influ2"],
    "  host      : gpu12.hpc.uni.de": ["gpu12.hpc.uni.de"],
    "MASTER_ADDR=trainhead MASTER_PORT=29500": ["trainhead"],
    "UserId=grace(1000) GroupId=lab7(100)": ["grace", "lab7"],
    "MailUser=ivan Account=judy": ["ivan", "judy"],
    "submitted by grace, approved by heidi": ["grace", "heidi"],
    "mac aa:bb:cc:dd:ee:ff": ["aa:bb:cc:dd:ee:ff"],
}
PLAIN = """\
stopped by SIGSTOP (state T)
killed by SIGKILL, cancelled by SIGTERM
torch.nn.functional.py train.py:88 v1.2.3 loss=2.31 lr=3e-4 grad_norm=0.41
2026-03-11T08:41:07Z INFO step=8003 loss=2.315 tok/s=830k 12:34:56
File train.py, line 88, in forward: self.net(x) -> torch.Size([4, 128])
RuntimeError: std::bad_alloc at at::Tensor c10::Error torch::autograd
step-100 checkpoint-500 epoch-3 shard-00017 layer-12 head-12 rank-3 worker-3
losses[0] x[1-3] tokens[0,1] params['h.0.attn'] cuda:0 gpu:3 GPU 5 gpu0 gpu-1
NVIDIA A100-SXM4-80GB, H100, TPU v5p-512, tpu-v5p-512, gpu-h100, L40S
cudnn 8.9.2.26, version 1.2.3.4, driver 535.104.05, NCCL version 2.18.5+cuda12.2
node rank 0 of 4, nodes=4, node: 0, host memory 12 GB, server ready
user code failed; user cancelled the run; user=root; killed by signal 9
rdzv at localhost:29500 and 127.0.0.1, 0.0.0.0:8080, ::1
GPU0000:03:00.0: Unknown Error; PCI 0000:3b:00.0
owner died; ownership of objects; Operator: op_type="OneHot"
config.optimizer.lr=3e-4 transformer.h.11.mlp.c_fc.weight threading.local
install it with: pip install name@3fa2c1e90ab
model.safetensors 16.4 GB, adam(0.9, 0.95), bf16, 1e-5, 4600/5155
"""


@pytest.mark.parametrize("line", NAMED)
def test_names_are_found(line: str) -> None:
    assert [line[each.start : each.end] for each in names_in(line)] == NAMED[line]


@pytest.mark.parametrize("line", PLAIN.splitlines())
def test_figures_paths_of_modules_and_devices_are_no_names(line: str) -> None:
    assert [line[each.start : each.end] for each in names_in(line)] == []


@pytest.mark.parametrize("piece", ["a-", "a.", "node", "1:", "a@", "user ", "host=", "gpu-", "ab"])
def test_no_line_takes_long(piece: str) -> None:
    assert grows_with_its_size(lambda size: names_in(piece * size), 8000 // len(piece))
