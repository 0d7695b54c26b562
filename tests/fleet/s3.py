"""An S3 server on loopback, with the shipped objects of a directory."""
import os
import pathlib
import subprocess
import sys
import time

BUCKET = "fleet"
KEY, SECRET = "fleet-key", "fleet-secret"


class Server:
    def __init__(self, port):
        import boto3

        self.host = f"127.0.0.1:{port}"
        self.url = f"http://{self.host}"
        # The moto_server beside the Python that runs this.
        program = pathlib.Path(sys.executable).with_name("moto_server")
        self.child = subprocess.Popen([program, "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.client = boto3.client("s3", endpoint_url=self.url, aws_access_key_id=KEY, aws_secret_access_key=SECRET, region_name="us-east-1")
        for _ in range(100):
            try:
                self.client.create_bucket(Bucket=BUCKET)
                break
            except Exception:
                time.sleep(0.1)

    def upload(self, folder):
        for path in sorted(pathlib.Path(folder).rglob("*")):
            if path.is_file():
                self.client.upload_file(str(path), BUCKET, str(path.relative_to(folder)))

    def stop(self):
        self.child.terminate()
        self.child.wait(30)


def httpfs():
    """The extension that DuckDB reads s3:// with: $DUCKDB_HTTPFS is its file; else it is downloaded."""
    file = os.environ.get("DUCKDB_HTTPFS")
    return [f"LOAD '{file}'"] if file else ["INSTALL httpfs", "LOAD httpfs"]
