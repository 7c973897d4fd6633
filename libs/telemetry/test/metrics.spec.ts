import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { PendingService } from '@toolloop/core';
import { TelemetryModule, type TelemetryOptions } from '@toolloop/telemetry';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import request from 'supertest';
import { METRICS } from '../src/conventions.js';
import { type ObservedApp, observe } from './observed-app.js';

let observed: ObservedApp;
let scraped: string;

const WHO = { actor: { id: 'alice-of-acme' }, tenant: 'acme' };

async function scrape(authorization = 'Bearer scraper'): Promise<request.Response> {
  return request(observed.app.getHttpServer()).get('/metrics').set('authorization', authorization);
}

/** The value of one series, by the name of its metric and some of its labels. */
function valueOf(name: string, labels: Readonly<Record<string, string>>): number | undefined {
  const wanted = Object.entries(labels).map(([key, value]) => `${key}="${value}"`);
  const line = scraped
    .split('\n')
    .find((one) => one.startsWith(`${name}{`) && wanted.every((part) => one.includes(part)));
  return line === undefined ? undefined : Number(line.split(' ').at(-1));
}

beforeAll(async () => {
  observed = await observe({ incoming: false });
  const script = [
    calls(
      call('orders__find', { id: 'order-4711' }),
      call('orders__remove', { id: 'order-4711' }),
      call('orders__break'),
    ),
    calls(call('orders__cancel', { id: 'order-4711' })),
    text('Done.'),
  ];
  const model = new ScriptedModel(script);
  const { runId } = await observed.loop.run({ prompt: 'Go.', ...WHO, model });
  const bob = { actor: { id: 'bob', roles: ['support'] }, tenant: 'acme' };
  const pending = observed.app.get(PendingService);
  for (const { approvalId } of await pending.list(bob))
    await pending.decide({ approvalId, decision: 'approve' }, bob);
  await (
    await observed.loop.resume(runId, { ...WHO, model })
  ).result;
  scraped = (await scrape()).text;
});
afterAll(() => observed.close());

describe('the metrics of runs', () => {
  it('count questions to models, their time and their tokens', () => {
    const about = { gen_ai_provider_name: 'scripted', gen_ai_request_model: 'script' };
    expect(valueOf('gen_ai_client_operation_duration_count', about)).toBe(3);
    expect(valueOf('gen_ai_client_token_usage_sum', { ...about, gen_ai_token_type: 'input' })).toBe(
      30,
    );
    expect(
      valueOf('gen_ai_client_token_usage_sum', { ...about, gen_ai_token_type: 'output' }),
    ).toBe(15);
  });

  it('count calls of tools by how they ended, and refusals by themselves', () => {
    const count = (tool: string, status: string) =>
      valueOf('gen_ai_execute_tool_duration_count', {
        gen_ai_tool_name: tool,
        toolloop_tool_status: status,
      });
    expect(count('orders__find', 'succeeded')).toBe(1);
    expect(count('orders__break', 'failed')).toBe(1);
    expect(valueOf('toolloop_tool_refusals_total', { error_type: 'unknown_tool' })).toBeUndefined();
    expect(count('orders__cancel', 'succeeded')).toBe(1);
    expect(count('orders__cancel', 'waiting')).toBeUndefined();
  });

  it('count runs by why they ended, a wait as an end of its own', () => {
    expect(
      valueOf('gen_ai_invoke_agent_duration_count', { toolloop_finish_reason: 'waiting' }),
    ).toBe(1);
    expect(valueOf('gen_ai_invoke_agent_duration_count', { toolloop_finish_reason: 'stop' })).toBe(
      1,
    );
  });

  it('count what people are asked and what they answer', () => {
    expect(valueOf('toolloop_pending_requests_total', { toolloop_pending_kind: 'approval' })).toBe(
      1,
    );
    expect(
      valueOf('toolloop_pending_answers_total', {
        toolloop_pending_kind: 'approval',
        toolloop_pending_answer: 'approve',
      }),
    ).toBe(1);
  });

  it('have no argument, no id of a run, a call or a person, and no tenant unless the application asks for it', () => {
    expect(scraped).not.toMatch(/order-4711|alice-of-acme|call_|acme/);
  });

  it('are not for a caller that the application does not allow', async () => {
    expect(await scrape('Bearer guessed')).toMatchObject({ status: 403 });
  });
});

describe('the dashboard', () => {
  const dashboard = readFileSync('libs/telemetry/dashboard/toolloop.json', 'utf8');
  const names = [
    ...new Set(dashboard.match(/\b(?:gen_ai|toolloop)_[a-z_]+(?:_bucket|_sum|_count|_total)\b/g)),
  ];

  it('shows every metric', () => {
    const shown = names.join(' ');
    expect(
      Object.values(METRICS).filter((name) => !shown.includes(name.replaceAll('.', '_'))),
    ).toEqual([]);
  });

  it.each(names)('names a metric that an application exports: %s', (name) => {
    // this run brings no tool, costs nothing and was not queued: their names are those of the table
    const needsMore = /injected|cost|queue_age/.test(name);
    const exported = needsMore
      ? Object.values(METRICS).flatMap((one) =>
          ['total', 'bucket'].map((part) => `${one.replaceAll('.', '_')}_${part}`),
        )
      : scraped.match(/^[a-z_]+(?=\{)/gm);
    expect(exported).toContain(name);
  });
});

describe('options that cannot be used', () => {
  it('are refused at once, with what to do about each', () => {
    // As an application in JavaScript may write them.
    const options = JSON.parse(
      '{ "content": {}, "metrics": { "exporter": {} } }',
    ) as TelemetryOptions;
    expect(() => TelemetryModule.forRoot(options)).toThrow(
      /content has no redact: .* metrics has no allow: .* metrics has no exporter/,
    );
  });
});
