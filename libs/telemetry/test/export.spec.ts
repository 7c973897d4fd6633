import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { type ObservedApp, observe } from './observed-app.js';

/** A collector that speaks OTLP over HTTP, as far as it receives traces. */
class Collector {
  readonly received: string[] = [];
  private readonly server: Server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      if (request.url === '/v1/traces') this.received.push(Buffer.concat(chunks).toString('utf8'));
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    });
  });

  listen(): Promise<string> {
    return new Promise((resolve) => {
      this.server.listen(0, '127.0.0.1', () =>
        resolve(`http://127.0.0.1:${(this.server.address() as AddressInfo).port}/v1/traces`),
      );
    });
  }

  close(): void {
    this.server.close();
  }
}

const redact = (words: string): string | undefined =>
  words.includes('PIN') ? undefined : words.replaceAll('4711', '****');

const collector = new Collector();
let observed: ObservedApp;
let exported: string;

beforeAll(async () => {
  const exporter = new OTLPTraceExporter({ url: await collector.listen() });
  observed = await observe({ content: { redact }, tenantLabel: true }, exporter);
  const model = new ScriptedModel([
    calls(call('orders__find', { id: '4711' })),
    text('It is open, my PIN is 1234.'),
  ]);
  await observed.loop.run({
    prompt: 'Where is 4711?',
    actor: { id: 'alice' },
    tenant: 'acme',
    model,
    instructions: 'Be brief.',
  });
  await exporter.forceFlush();
  exported = collector.received.join('\n');
});
afterAll(async () => {
  await observed.close();
  collector.close();
});

describe('spans on their way to a collector', () => {
  it('are received over OTLP under the names of the conventions', () => {
    expect(exported).toContain('"name":"invoke_agent"');
    expect(exported).toContain('"name":"execute_tool orders__find"');
    expect(exported).toContain('"key":"gen_ai.operation.name","value":{"stringValue":"chat"}');
  });

  it('hold the content that the application asked for, each text redacted', () => {
    expect(exported).toContain('gen_ai.system_instructions');
    expect(exported).toContain('Where is ****?');
    expect(exported).toContain('gen_ai.tool.call.arguments');
    expect(exported).not.toContain('4711');
  });

  it('hold nothing of a text for which the redaction returns nothing', () => {
    expect(exported).not.toContain('PIN');
  });

  it('go with metrics by tenant where the application asks for that', async () => {
    const { resourceMetrics } = await observed.prometheus.collect();
    expect(JSON.stringify(resourceMetrics.scopeMetrics.map(({ metrics }) => metrics))).toContain(
      '"toolloop.tenant":"acme"',
    );
  });
});
