import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { SpanStatusCode, trace } from '@opentelemetry/api';
import type { ReadableSpan } from '@opentelemetry/sdk-trace';
import { PendingService, type LoopRequest } from '@toolloop/core';
import { call, calls, fails, ScriptedModel, type ScriptedTurn, text } from '@toolloop/testing';
import { ModelError } from '@toolloop/protocol';
import request from 'supertest';
import { type ObservedApp, observe, treeOf } from './observed-app.js';

let observed: ObservedApp;

beforeAll(async () => {
  observed = await observe();
});
afterAll(() => observed.close());
beforeEach(() => void observed.take());

function ask(script: readonly ScriptedTurn[], more: Partial<LoopRequest> = {}): LoopRequest {
  return {
    prompt: 'Where is 7?',
    actor: { id: 'alice' },
    tenant: 'acme',
    model: new ScriptedModel(script),
    ...more,
  };
}

function named(spans: readonly ReadableSpan[], name: string): ReadableSpan {
  const found = spans.find((span) => span.name === name);
  if (!found)
    throw new Error(
      `There is no span "${name}" among ${spans.map((span) => span.name).join(', ')}.`,
    );
  return found;
}

describe('the spans of a run', () => {
  it('are one tree from the HTTP request to the statement that a tool sends', async () => {
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    await request(observed.app.getHttpServer())
      .post('/ask')
      .set('traceparent', traceparent)
      .expect(201);
    const spans = observed.take();
    expect(treeOf(spans)).toEqual([
      'invoke_agent',
      'invoke_agent > chat script',
      'invoke_agent > chat script',
      'invoke_agent > execute_tool orders__find',
      'invoke_agent > execute_tool orders__find > select orders',
    ]);
    const run = named(spans, 'invoke_agent');
    expect([run.spanContext().traceId, run.parentSpanContext?.spanId]).toEqual(
      traceparent.split('-').slice(1, 3),
    );
  });

  it('say who ran what, with which model, how many tokens it took and why it ended', async () => {
    await observed.loop.run(
      ask([calls(call('orders__find', { id: '7' })), text('It is open.')], {
        modelOptions: { temperature: 0.5 },
        requestId: 'r-1',
      }),
    );
    const spans = observed.take();
    expect(named(spans, 'invoke_agent').attributes).toMatchObject({
      'gen_ai.operation.name': 'invoke_agent',
      'toolloop.tenant': 'acme',
      'toolloop.actor.id': 'alice',
      'toolloop.request.id': 'r-1',
      'toolloop.finish_reason': 'stop',
      'toolloop.steps': 2,
      'gen_ai.usage.input_tokens': 20,
      'gen_ai.usage.output_tokens': 10,
    });
    expect(named(spans, 'chat script').attributes).toMatchObject({
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'scripted',
      'gen_ai.request.model': 'script',
      'gen_ai.request.temperature': 0.5,
      'gen_ai.response.finish_reasons': ['tool_calls'],
      'gen_ai.usage.input_tokens': 10,
      'toolloop.tools.hash': expect.stringMatching(/^[0-9a-f]{16}$/),
    });
    expect(named(spans, 'execute_tool orders__find').attributes).toMatchObject({
      'gen_ai.operation.name': 'execute_tool',
      'gen_ai.tool.name': 'orders__find',
      'gen_ai.tool.type': 'function',
      'toolloop.tool.status': 'succeeded',
      'toolloop.tool.effect': 'read_only',
      'toolloop.step': 1,
    });
  });

  it('tell the decision of policy as an event of the call', async () => {
    await observed.loop.run(ask([calls(call('orders__find', { id: '7' })), text('Done.')]));
    const { events } = named(observed.take(), 'execute_tool orders__find');
    expect(events).toMatchObject([
      {
        name: 'toolloop.policy.decision',
        attributes: {
          'toolloop.policy.decision': 'allow',
          'toolloop.policy.rule': 'allow: orders__*',
          'toolloop.policy.version': 'v7',
        },
      },
    ]);
  });

  it('have the code of an error and none of its text', async () => {
    await observed.loop.run(ask([calls(call('orders__break')), text('Sorry.')]));
    const spans = observed.take();
    const broken = named(spans, 'execute_tool orders__break');
    expect(broken.attributes).toMatchObject({
      'error.type': 'execution_failed',
      'toolloop.tool.status': 'failed',
    });
    expect(broken.status).toEqual({ code: SpanStatusCode.ERROR });
    expect(
      JSON.stringify(spans.map(({ attributes, events, status }) => [attributes, events, status])),
    ).not.toContain('hunter2');
  });

  it('have the code of a model that failed, on its question and on the run', async () => {
    await observed.loop
      .run(ask([fails(new ModelError('The provider is away.', { code: 'overloaded' }))]))
      .catch(() => undefined);
    const spans = observed.take();
    expect(named(spans, 'chat script').attributes).toMatchObject({ 'error.type': 'overloaded' });
    expect(named(spans, 'invoke_agent').attributes).toMatchObject({
      'error.type': 'model_error',
      'toolloop.finish_reason': 'error',
    });
  });

  it('name a tool that the model made up as unknown, so that no model fills the list of names', async () => {
    await observed.loop.run(ask([calls(call('orders__invented_by_a_model')), text('Sorry.')]));
    expect(observed.take().map(({ name }) => name)).toContain('execute_tool unknown');
  });

  it('hold no argument, no result and no word of anybody unless the application asks for them', async () => {
    await observed.loop.run(
      ask([calls(call('orders__find', { id: 'SECRET-7', card: '4111' })), text('SECRET answer.')], {
        prompt: 'SECRET?',
      }),
    );
    const shown = observed.take().map(({ name, attributes, events }) => [name, attributes, events]);
    expect(JSON.stringify(shown)).not.toMatch(/SECRET|4111/);
  });

  it('have a link from the part of a run that is resumed to the part that waited', async () => {
    const script = [calls(call('orders__cancel', { id: '7' })), text('Cancelled.')];
    const model = new ScriptedModel(script);
    const waiting = await observed.loop.run(ask(script, { model }));
    const first = observed.take();
    const before = named(first, 'invoke_agent');
    expect(named(first, 'execute_tool orders__cancel').events).toMatchObject([
      { name: 'toolloop.pending.request', attributes: { 'toolloop.pending.kind': 'approval' } },
    ]);
    const bob = { actor: { id: 'bob', roles: ['support'] }, tenant: 'acme' };
    const approvals = observed.app.get(PendingService);
    for (const { approvalId } of await approvals.list(bob))
      await approvals.decide({ approvalId, decision: 'approve' }, bob);
    const { prompt: _prompt, ...again } = ask(script, { model });
    await (
      await observed.loop.resume(waiting.runId, again)
    ).result;
    const after = named(observed.take(), 'invoke_agent');
    expect(after.links).toMatchObject([
      { context: { traceId: before.spanContext().traceId, spanId: before.spanContext().spanId } },
    ]);
  });

  it('are made of a single call without a model, under the span of who makes it', async () => {
    const found = await trace.getTracer('job').startActiveSpan('nightly', async (span) => {
      const { record } = await observed.loop.call({
        tool: 'orders__find',
        args: { id: '7' },
        actor: { id: 'alice' },
        tenant: 'acme',
      });
      span.end();
      return record.status;
    });
    expect(found).toBe('succeeded');
    expect(treeOf(observed.take())).toEqual([
      'nightly',
      'nightly > execute_tool orders__find',
      'nightly > execute_tool orders__find > select orders',
    ]);
  });
});
