"""A server that speaks S3, in a process of its own."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from tests.waiting import wait_for


@contextlib.contextmanager
def running_s3(host: str) -> Iterator[tuple[dict[str, str], Any]]:
    """Start it on an address of this machine. Gives what the environment of whoever reads s3:// needs, and a client."""
    import boto3
    from botocore.exceptions import EndpointConnectionError

    with socket.socket() as probe:
        probe.bind((host, 0))
        port = probe.getsockname()[1]
    settings = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": host,
    }
    command = [sys.executable, "-m", "moto.server", "-H", host, "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    client = boto3.client(
        "s3", endpoint_url=settings["AWS_ENDPOINT_URL"], region_name="us-east-1",
        aws_access_key_id="testing", aws_secret_access_key="testing",
    )  # fmt: skip

    def answers() -> bool:
        assert server.poll() is None, "the server ended"
        with contextlib.suppress(EndpointConnectionError):
            client.list_buckets()
            return True
        return False

    try:
        wait_for(answers, "the server")
        yield settings, client
    finally:
        client.close()
        server.terminate()
        server.wait()
