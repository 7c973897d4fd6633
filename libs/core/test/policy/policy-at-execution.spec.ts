import { describe, expect, it } from '@jest/globals';
import {
  LlmTool,
  type Policy,
  type Tool,
  ToolLoopService,
  ToolParam,
  ToolProvider,
  ToolSource,
} from '@toolloop/core';
import { Toolset } from '../../src/catalog/toolset.js';
import { toolOf } from '../tools/tools.js';
import { Bench, errorOf } from '../call/bench.js';

const effects: string[] = [];

@ToolProvider({ namespace: 'crm' })
class CrmTools {
  @LlmTool({ description: 'Finds.', effect: 'read_only', reveal: 'all' })
  search(): string {
    effects.push('search');
    return 'found';
  }

  @LlmTool({ description: 'Removes.', effect: 'state_change', reveal: 'all' })
  remove(@ToolParam('id', { description: 'whom', type: 'string' }) id: string): string {
    effects.push(`remove ${id}`);
    return id;
  }

  @LlmTool({ description: 'Removes all.', effect: 'state_change', reveal: 'all' })
  removeAll(): void {
    effects.push('removeAll');
  }
}

class RemoteSource extends ToolSource {
  readonly origin = { source: 'remote', trusted: false };

  override tools(): readonly Tool[] {
    return [toolOf({ id: 'remote__run' })];
  }
}

const start = async (): Promise<Bench> => {
  effects.length = 0;
  return Bench.start({ providers: [CrmTools] });
};

describe('invariant 2: a denied tool that is in the toolset all the same', () => {
  const policies: Policy[] = [{ allow: ['crm__search'] }];

  it('invariant 2: is not executed, and recorded as denied by policy', async () => {
    const run = (await start()).run({ policies });
    const { record } = await run.exec('crm__remove', { id: '1' });
    expect(effects).toEqual([]);
    expect(record).toMatchObject({
      status: 'denied',
      declaredId: 'crm__remove',
      effect: 'state_change',
      error: { code: 'policy_denied' },
      decision: { kind: 'deny', rule: 'default' },
    });
  });

  it('invariant 2: reads to the model like a tool that does not exist', async () => {
    const bench = await start();
    const denied = await bench.run({ policies }).exec('crm__remove', { id: '1' });
    const toolset = Toolset.of(bench.catalog.build({ tools: ['crm__search'] }));
    const unlisted = await bench.run({ policies, toolset }).exec('crm__remove', { id: '1' });
    const missing = await bench
      .run({ policies, toolset, tools: [] })
      .exec('crm__removed', { id: '1' });
    expect(denied.content).toBe(unlisted.content);
    expect(denied.content).toBe(missing.content.replace('crm__removed', 'crm__remove'));
    expect(errorOf(denied)).toMatchObject({ code: 'unknown_tool', status: '400' });
  });

  it.each([
    ['none', '{}'],
    ['of a wrong type', '{"id":1}'],
    ['reserved', '{"tenant":"x"}'],
    ['no JSON', 'no json'],
    ['a list', '[]'],
    ['too large', `{"id":"${'x'.repeat(9000)}"}`],
  ])('invariant 2: tells nothing about its arguments: %s', async (_, args) => {
    const run = (await start()).run({ policies });
    const outcome = await run.exec('crm__remove', args);
    expect([errorOf(outcome).code, outcome.record.error?.code]).toEqual([
      'unknown_tool',
      'policy_denied',
    ]);
  });

  it('invariant 2: is never named as the closest to a wrong name', async () => {
    const run = (await start()).run({ policies });
    const outcomes = [await run.exec('crm__removeAl'), await run.exec('crm__remove')];
    for (const { content } of outcomes) expect(content).not.toContain('removeAll');
  });

  it('invariant 2: starts nothing, and says so in the events', async () => {
    const run = (await start()).run({ policies });
    await run.exec('crm__remove', { id: '1' });
    expect(run.events.map(({ type }) => type)).toEqual(['tool-call', 'tool-result']);
  });
});

describe('invariant 2: listing and execution', () => {
  it.each<Policy>([
    { allow: ['*'] },
    { allow: [] },
    { allow: ['crm__*'], deny: ['*__remove'] },
    { allow: ['crm__*'], effects: ['state_change'] },
    { allow: ['crm__removeAll', 'remote__run'] },
    { allow: ['*'], requireApproval: [{ effects: ['state_change'] }] },
  ])('invariant 2: agree under %j', async (policy) => {
    const bench = await Bench.start({ providers: [CrmTools, RemoteSource], options: { policy } });
    const listed = await bench.module
      .get(ToolLoopService)
      .list({ actor: { id: 'ada' }, tenant: 'acme' });
    const run = bench.run({ policies: [policy] });
    for (const { id } of bench.catalog.list()) {
      const { record } = await run.exec(id, id === 'crm__remove' ? { id: '1' } : {});
      expect([id, record.error?.code !== 'policy_denied']).toEqual([
        id,
        listed.some((spec) => spec.id === id),
      ]);
    }
  });
});

describe('invariant 2: the policy of a run', () => {
  it('invariant 2: narrows that of the application', async () => {
    const run = (await start()).run({
      policies: [{ allow: ['crm__*'] }, { allow: ['crm__search'] }],
    });
    expect((await run.exec('crm__search')).record.status).toBe('succeeded');
    expect((await run.exec('crm__removeAll')).record.error?.code).toBe('policy_denied');
  });

  it('invariant 2: never widens it', async () => {
    const run = (await start()).run({ policies: [{ allow: ['crm__search'] }, { allow: ['*'] }] });
    expect((await run.exec('crm__removeAll')).record.error?.code).toBe('policy_denied');
    expect(effects).toEqual([]);
  });
});

describe('a tool that needs approval', () => {
  const policies: Policy[] = [
    { version: 'v1', allow: ['*'], requireApproval: [{ effects: ['state_change'] }] },
  ];

  it('is not executed without an approver, and the model reads why', async () => {
    const run = (await start()).run({ policies });
    const outcome = await run.exec('crm__remove', { id: '1' });
    expect(effects).toEqual([]);
    expect(outcome.record).toMatchObject({
      status: 'denied',
      args: { id: '1' },
      error: { code: 'approval_denied' },
      decision: { kind: 'require_approval', rule: 'requireApproval[0]', policyVersion: 'v1' },
    });
    expect(errorOf(outcome)).toMatchObject({
      status: '403',
      code: 'approval_denied',
      detail: expect.stringContaining(
        "A tool with the effect state_change needs a person's approval.",
      ),
    });
  });

  it('is asked about with valid arguments only', async () => {
    const run = (await start()).run({ policies });
    expect(errorOf(await run.exec('crm__remove', { id: 1 })).code).toBe('invalid_args');
  });

  it('leaves reads alone', async () => {
    const run = (await start()).run({ policies });
    expect((await run.exec('crm__search')).content).toBe('found');
  });
});

describe('a tool of an untrusted source', () => {
  const remote = toolOf({ id: 'remote__run', invoke: () => 'ran' });

  it('invariant 2: is executed where its id is named, and not by a glob', async () => {
    const bench = await start();
    const by = (pattern: string) =>
      bench.run({ tools: [remote], policies: [{ allow: [pattern] }] }).exec('remote__run');
    expect((await by('remote__run')).content).toBe('ran');
    expect((await by('remote__*')).record.error?.code).toBe('policy_denied');
  });
});
