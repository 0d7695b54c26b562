// Starts the SDK that sends to the receiver; EXPORTER is proto or json. To be loaded with --import.
import { NodeSDK } from '@opentelemetry/sdk-node';
import { BatchLogRecordProcessor } from '@opentelemetry/sdk-logs';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { OTLPTraceExporter as Proto } from '@opentelemetry/exporter-trace-otlp-proto';
import { OTLPTraceExporter as Json } from '@opentelemetry/exporter-trace-otlp-http';
import { OTLPLogExporter } from '@opentelemetry/exporter-logs-otlp-proto';

export function start(serviceName, instrumentations = []) {
  const base = 'http://127.0.0.1:4318/v1';
  const Exporter = process.env.EXPORTER === 'json' ? Json : Proto;
  const sdk = new NodeSDK({
    resource: resourceFromAttributes({ 'service.name': serviceName }),
    autoDetectResources: false,
    traceExporter: new Exporter({ url: `${base}/traces` }),
    logRecordProcessors: [new BatchLogRecordProcessor({ exporter: new OTLPLogExporter({ url: `${base}/logs` }) })],
    instrumentations,
  });
  sdk.start();
  return sdk;
}
