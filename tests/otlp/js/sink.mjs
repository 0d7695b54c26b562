// An OTLP/HTTP receiver that stores each body exactly as it was sent, in the order of arrival.
//
// usage: node sink.mjs PORT DIRECTORY
// Of metrics, only the last body is kept. index.ndjson, beside the bodies, has the paths and headers.
import { appendFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';

const [port, dir] = process.argv.slice(2);
mkdirSync(dir, { recursive: true });
let n = 0;
let metrics;

createServer((req, res) => {
  const parts = [];
  req.on('data', (d) => parts.push(d));
  req.on('end', () => {
    const signal = /\/v1\/(traces|logs|metrics)$/.exec(req.url)?.[1];
    const type = req.headers['content-type'] ?? '';
    const encoding = req.headers['content-encoding'];
    if (req.method !== 'POST' || !signal) {
      res.writeHead(404).end();
      return;
    }
    const json = type.startsWith('application/json');
    const name = `${String(n++).padStart(2, '0')}.${signal}.${json ? 'json' : 'pb'}${encoding === 'gzip' ? '.gz' : ''}`;
    if (signal === 'metrics') {
      if (metrics) rmSync(join(dir, metrics));
      metrics = name;
    }
    writeFileSync(join(dir, name), Buffer.concat(parts));
    appendFileSync(join(dir, 'index.ndjson'), JSON.stringify({ name, path: req.url, headers: req.headers }) + '\n');
    res.writeHead(200, { 'content-type': json ? 'application/json' : 'application/x-protobuf' });
    res.end(json ? '{}' : '');
  });
}).listen(Number(port), '127.0.0.1');
