import { describe, expect, it } from '@jest/globals';
import { ash } from '../../examples/seeds/ash.js';
import { cogni } from '../../examples/seeds/cogni.js';
import { embabel } from '../../examples/seeds/embabel.js';
import { fleetprompt } from '../../examples/seeds/fleetprompt.js';
import { raaf } from '../../examples/seeds/raaf.js';

describe('the example', () => {
  it('calls tools that came with the entities of results, and reads what a write before it in the same answer has done (embabel)', async () => {
    const { toolCalls, injectedTools, text, finishReason } = await embabel();
    expect(finishReason).toBe('stop');
    expect(injectedTools.map(({ id }) => id)).toEqual([
      'customer_c-123_getAverageSpend',
      'customer_c-123_getRecentOrders',
      'cart_k-1_addItem',
      'cart_k-1_getContents',
    ]);
    expect(toolCalls.map(({ status }) => status)).toEqual(Array(5).fill('succeeded'));
    expect(toolCalls[1]?.result).toEqual({ amount: 100, currency: 'EUR' });
    expect(toolCalls[4]?.result).toEqual([{ productId: 'p-7', quantity: 2 }]);
    expect(text).toContain('100 EUR');
  });

  it('calls the same tools directly and by a loop, under one policy and with the same callbacks (ash)', async () => {
    const { listed, described, direct, wrong, forbidden, result, elsewhere, told } = await ash();
    expect(listed).toEqual(['posts__read']);
    expect(described.inputSchema).toMatchObject({
      required: ['title'],
      additionalProperties: false,
    });
    expect(direct.ui).toEqual({ id: 'p-1', title: 'By hand', status: 'draft' });
    expect(wrong.record.error).toMatchObject({
      code: 'invalid_args',
      problems: [{ pointer: '/limit' }],
    });
    expect(forbidden.record.error).toMatchObject({ code: 'policy_denied' });
    expect(result).toMatchObject({ finishReason: 'stop', steps: 3 });
    expect(result.toolCalls.map(({ result: post }) => post)).toMatchObject([
      { status: 'draft' },
      { id: 'p-2', status: 'published' },
    ]);
    expect(elsewhere.ui).toEqual([]);
    expect(told).toEqual(
      ['posts__create', 'posts__create', 'posts__publish'].flatMap((id) => [
        `start ${id}`,
        `end ${id} succeeded`,
      ]),
    );
  });

  it('asks for a directive once, however often it is requested, and never for another tenant (fleetprompt)', async () => {
    const { definitions, requested, repeated, overridden, posts, subject } = await fleetprompt();
    expect(definitions.map(({ function: { name } }) => name)).toEqual([
      'forum__categories',
      'forum__createPost',
      'directives__status',
    ]);
    expect(definitions[1]?.function.parameters).toMatchObject({
      required: ['thread_id', 'content'],
      additionalProperties: false,
    });
    expect(requested.ui).toMatchObject({
      ok: true,
      type: 'forum.post.create.requested',
      result: { subject },
    });
    expect((repeated.ui as { result: object }).result).toMatchObject({
      directive_id: (requested.ui as { result: { directive_id: string } }).result.directive_id,
    });
    expect(overridden.record.error).toMatchObject({ code: 'tenant_override' });
    expect(posts).toEqual(['org_demo: Hello.']);
  });

  it('validates, measures and reads the failures of a class that knows nothing of it (raaf)', async () => {
    const { toolCalls, text } = await raaf();
    expect(toolCalls.map(({ status, error }) => error?.code ?? status)).toEqual([
      'succeeded',
      'invalid_args',
      'execution_failed',
    ]);
    expect(toolCalls[0]?.result).toMatchObject({
      success: true,
      _execution_metadata: { tool_name: 'web__search', agent_name: 'script' },
    });
    expect(toolCalls[2]?.error?.safeMessage).toBe('The search service is down.');
    expect(text).toBe('Three pages about NestJS.');
  });

  it('keeps the id of a call from its start to its result, assembles it from fragments, and denies at both ends (cogni)', async () => {
    const { events, denied, requests, deleted } = await cogni();
    const ids = (type: string) =>
      events.flatMap((event) =>
        event.type === type && 'toolCallId' in event ? [event.toolCallId] : [],
      );
    const results = events.flatMap((event) => (event.type === 'tool-result' ? [event.record] : []));
    expect(ids('tool-call').toSorted()).toEqual(['call_a', 'call_b']);
    expect(
      Object.fromEntries(
        results.map(({ toolCallId, result, error }) => [toolCallId, error?.code ?? result]),
      ),
    ).toEqual({
      call_a: 'HI',
      call_b: 'invalid_json',
    });
    expect(events.filter(({ type }) => type === 'run-end')).toHaveLength(1);
    expect(requests).toHaveLength(2);
    expect(requests.every((body) => !body.includes('deleteText'))).toBe(true);
    expect(denied.record.error).toMatchObject({ code: 'policy_denied' });
    expect(deleted).toEqual([]);
  });
});
