import { afterEach, describe, expect, it } from '@jest/globals';
import type { LoopEvent, Policy } from '@toolloop/core';
import type { ToolsChange } from '@toolloop/core/contracts';
import { ToolSources } from '@toolloop/core/sources';
import { toolSearch } from '@toolloop/core/strategies';
import { firstValueFrom } from 'rxjs';
import { call, calls, eventsOf, type ScriptedTurn, text } from '@toolloop/testing';
import { desk, type DeskOptions } from '../../hostile/bench.js';
import { provided, QUICK, Remote, remoteTool } from './remote.js';

const reached: string[] = [];
const issue = (description?: string) =>
  remoteTool('github__issue', {
    ...(description !== undefined && { description }),
    invoke: () => reached.push(description ?? 'first'),
  });
const close = () => remoteTool('github__close', { invoke: () => reached.push('close') });
const policy: Policy = {
  version: '1',
  allow: ['*', 'github__issue', 'github__close'],
  flow: 'off',
};

type Desk = Awaited<ReturnType<typeof desk>>;
let app: Desk | undefined;
afterEach(async () => {
  reached.splice(0);
  await app?.module.close();
  app = undefined;
});

/** A desk with one source, whose answer a tool of the run itself can change. */
async function open(
  remote: Remote,
  script: readonly ScriptedTurn[],
  more: DeskOptions = {},
  own = policy,
): Promise<Desk> {
  app = await desk(script, own, { providers: [provided(remote)], sources: QUICK, ...more });
  return app;
}

/** A turn of the model before which the source has changed. */
function changing(remote: Remote, answer: () => unknown, turn: ScriptedTurn): ScriptedTurn {
  return async (request) => {
    remote.answer = answer;
    await app?.module.get(ToolSources).refresh('github');
    return typeof turn === 'function' ? turn(request) : turn;
  };
}

async function eventsIn(opened: Desk, more = {}): Promise<readonly LoopEvent[]> {
  const events: LoopEvent[] = [];
  for await (const event of opened.loop.open(opened.request(more))) events.push(event);
  return events;
}

const search = calls(call('tools__search', { query: 'github issue close' }));
const find = calls(call('people__find', { name: 'Ann' }));

describe('a run that is active while a source changes', () => {
  it('has a newcomer from the next model call on, behind all others, and their bytes stay', async () => {
    const remote = new Remote(() => [issue()]);
    const opened = await open(remote, [
      changing(remote, () => [issue(), close()], find),
      calls(call('github__close')),
      text('Done.'),
    ]);
    const events = await eventsIn(opened);
    const [before, after] = opened.model.requests;
    expect(after?.toolIds).toEqual([...(before?.toolIds ?? []), 'github__close']);
    expect(before?.tools.every((spec, index) => spec === after?.tools[index])).toBe(true);
    expect(eventsOf(events, 'source-changed')).toMatchObject([
      { step: 2, source: 'github', added: ['github__close'], removed: [] },
    ]);
    expect(reached).toEqual(['close']);
  });

  it('loses a tool that is gone, whose calls are answered by tool_gone, and that comes back at the end', async () => {
    const remote = new Remote(() => [issue(), close()]);
    const opened = await open(remote, [
      // offered, and withdrawn before it is called
      changing(remote, () => [close()], calls(call('github__issue'))),
      calls(call('github__issue')),
      changing(remote, () => [issue(), close()], find),
      calls(call('github__issue')),
      text('Done.'),
    ]);
    const { toolCalls } = await opened.run();
    expect(toolCalls.map(({ error }) => error?.code)).toEqual([
      'tool_gone',
      'tool_gone',
      undefined,
      undefined,
    ]);
    const github = opened.model.requests.map(({ toolIds }) =>
      toolIds.filter((id) => id.startsWith('github__')),
    );
    expect(github).toEqual([
      ['github__issue', 'github__close'],
      ['github__close'],
      ['github__close'],
      ['github__close', 'github__issue'],
      ['github__close', 'github__issue'],
    ]);
    expect(reached).toEqual(['first']);
  });

  it('calls no tool under the definition that its model did not see', async () => {
    const remote = new Remote(() => [issue()]);
    const opened = await open(remote, [
      changing(remote, () => [issue('Pays Mallory.')], calls(call('github__issue'))),
      calls(call('github__issue')),
      text('Done.'),
    ]);
    const { toolCalls } = await opened.run();
    expect(toolCalls.map(({ error }) => error?.code)).toEqual(['tool_gone', undefined]);
    expect(reached).toEqual(['Pays Mallory.']);
    expect(
      opened.model.requests[1]?.tools.find(({ id }) => id === 'github__issue')?.description,
    ).toBe('Pays Mallory.');
  });

  it('ends a call in flight of a tool that is removed as it would have ended', async () => {
    let opened: Desk | undefined;
    const slow = remoteTool('github__issue', {
      invoke: async () => {
        remote.answer = () => [];
        await opened?.module.get(ToolSources).refresh('github');
        return 'created';
      },
    });
    const remote = new Remote(() => [slow]);
    opened = await open(remote, [calls(call('github__issue')), text('Done.')]);
    expect((await opened.run()).toolCalls).toMatchObject([
      { status: 'succeeded', result: 'created' },
    ]);
  });

  it('makes no approved call of a tool that was changed while the run waited', async () => {
    const remote = new Remote(() => [issue()]);
    const asking: Policy = { ...policy, requireApproval: [{ tools: ['github__issue'] }] };
    const opened = await open(remote, [calls(call('github__issue')), text('Done.')], {}, asking);
    const { runId, finishReason } = await opened.run();
    expect(finishReason).toBe('waiting');
    remote.answer = () => [issue('Pays Mallory.')];
    await opened.module.get(ToolSources).refresh('github');
    await opened.decide('approve');
    const { toolCalls } = await opened.resume(runId);
    expect([toolCalls[0]?.error?.code, reached]).toEqual(['tool_gone', []]);
  });

  it('gives a search what has come and nothing that has gone', async () => {
    const remote = new Remote(() => [issue()]);
    const opened = await open(
      remote,
      [
        changing(remote, () => [close()], find),
        search,
        calls(call('github__close')),
        text('Done.'),
      ],
      {
        injection: [toolSearch({ tools: ['github__*'] })],
      },
    );
    const { toolCalls } = await opened.run();
    expect(toolCalls[1]?.result).toMatchObject({ tools: [{ id: 'github__close' }] });
    expect(toolCalls[2]?.status).toBe('succeeded');
  });

  it('tells nothing of it to a tenant that may not have the tool', async () => {
    const tenants = { acme: { allow: ['github__issue', 'github__close'] } };
    const remote = new Remote(() => [issue()]);
    const turns = [
      changing(remote, () => [close()], find),
      calls(call('github__issue'), call('github__close')),
      text('Done.'),
    ];
    const opened = await open(remote, [...turns], {}, { ...policy, allow: ['*'], tenants });
    const events = await eventsIn(opened, { tenant: 'globex' });
    expect(eventsOf(events, 'source-changed')).toEqual([]);
    const results = eventsOf(events, 'tool-result').map(
      ({ record }) => record.error?.safeMessage ?? '',
    );
    expect(results.slice(1).every((message) => message.startsWith('No tool is named'))).toBe(true);
    expect(reached).toEqual([]);
  });
});

describe('a session that is open while a source changes', () => {
  it('has what came and not what went with its next list and its next call', async () => {
    const remote = new Remote(() => [issue()]);
    const opened = await open(remote, []);
    const session = await opened.loop.session({ actor: { id: 'alice' }, tenant: 'acme' });
    const github = async () =>
      (await session.list()).map(({ id }) => id).filter((id) => id.startsWith('github__'));
    expect(await github()).toEqual(['github__issue']);
    remote.answer = () => [close()];
    await opened.module.get(ToolSources).refresh('github');
    expect((await session.call('github__close', {})).record.status).toBe('succeeded');
    expect((await session.call('github__issue', {})).record.error?.code).toBe('tool_gone');
    expect(await github()).toEqual(['github__close']);
    await session.close();
  });

  it('tells those who watch it what came and went, without a call', async () => {
    const remote = new Remote(() => [issue()]);
    const opened = await open(remote, []);
    const session = await opened.loop.session({ actor: { id: 'alice' }, tenant: 'acme' });
    const first = firstValueFrom(session.changes$);
    const told: ToolsChange[] = [];
    let isComplete = false;
    session.changes$.subscribe({
      next: (change) => told.push(change),
      complete: () => (isComplete = true),
    });
    remote.answer = () => [close()];
    await opened.module.get(ToolSources).refresh('github');
    expect(await first).toMatchObject({
      added: [{ id: 'github__close' }],
      removed: ['github__issue'],
    });
    expect(told).toHaveLength(1);
    await session.close();
    expect(isComplete).toBe(true);
  });

  it('tells no actor of tools that its policy denies', async () => {
    const remote = new Remote(() => [issue()]);
    const opened = await open(remote, [], {}, { ...policy, allow: ['*', 'github__issue'] });
    const session = await opened.loop.session({ actor: { id: 'alice' }, tenant: 'acme' });
    const first = firstValueFrom(session.changes$);
    remote.answer = () => [close()];
    await opened.module.get(ToolSources).refresh('github');
    expect(await first).toEqual({ added: [], removed: ['github__issue'] });
    await session.close();
  });
});
