import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { Injectable, Logger } from '@nestjs/common';
import { ActorDirectory, type Policy } from '@toolloop/core';
import { MemoryPolicyStore, MemoryRunLog, type PolicyVersion, RunLog } from '@toolloop/core/stores';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { OPEN, operatedShop, ops, opsOfGlobex, root } from '../../fixtures/operated-shop.js';
import { openModule } from '../../fixtures/shop.module.js';
import { chain, check, copies, draft } from '../audit/chains.js';

const write = call('probe__write', { key: 'w' });
const read = call('probe__read', { key: 'r' });
const AT_FIRST = { expected: 0, reason: 'Ticket 1.' };

const DROPPED = [
  ['provenance', /The level "provenance" is gone\.\s+Name 'values' in its place\./],
  [
    'effect',
    /The level "effect" is gone\.\s+Name another level, and add .* to `requireApproval`\./,
  ],
] as const;
type Dropped = (typeof DROPPED)[number][0];

/** A policy as an earlier release took it: no type has the level any more. */
function policyAt(level: string, more: Partial<Policy> = {}): Policy {
  return JSON.parse(JSON.stringify({ ...OPEN, ...more, flow: level })) as Policy;
}

describe.each(DROPPED)('the level `%s`, which is gone', (level, says) => {
  const policy = policyAt(level);

  it.each<[string, Parameters<typeof openModule>[1], Parameters<typeof openModule>[2]]>([
    ['the policy of forRoot', { policy }, {}],
    ['one of the policies of forRoot', { policy: [OPEN, policy] }, {}],
    ['a policy of forRoot in shadow', { policy: [OPEN, { ...policy, shadow: true }] }, {}],
    ['a candidate', { policy: OPEN, candidates: { other: policy } }, {}],
    ['the policy of a loop of forFeature', { policy: OPEN }, { desk: { policy } }],
  ])('stops the start, with its place and a remedy: %s', async (_, options, loops) => {
    await expect(openModule(new ScriptedModel([]), options, loops)).rejects.toThrow(says);
  });

  it('is refused in the policy of a run, which makes no call', async () => {
    const { run } = await operatedShop([calls(write)]);
    await expect(run({ policy })).rejects.toThrow(says);
  });

  it('is refused where an operator puts it or replays it, and where a process replaces its own', async () => {
    const { policies, engine } = await operatedShop();
    await expect(policies.put(policy, ops, AT_FIRST)).rejects.toThrow(says);
    await expect(
      policies.put(policy, root, { ...AT_FIRST, everywhere: true }),
    ).rejects.toMatchObject({ code: 'configuration', findings: [{ at: 'policy/flow' }] });
    await expect(policies.replay(policy, [], ops)).rejects.toThrow(says);
    expect(() => engine.replace(policy)).toThrow(says);
    expect(engine.policies).toEqual([OPEN]);
  });
});

describe('a level that never was', () => {
  it('is told as such, without the remedy for another', async () => {
    await expect(openModule(new ScriptedModel([]), { policy: policyAt('strict') })).rejects.toThrow(
      'See the type Policy for the fields and their values.',
    );
  });
});

afterEach(() => {
  jest.restoreAllMocks();
});

/** A store in which an earlier release has put versions of both tenants, and of all. */
async function storeWith(
  ...versions: readonly Pick<PolicyVersion, 'tenant' | 'policies'>[]
): Promise<MemoryPolicyStore> {
  const store = new MemoryPolicyStore();
  for (const version of versions)
    await store.add({
      ...version,
      number: 1,
      author: 'ops',
      reason: 'x',
      at: '2026-01-01T00:00:00.000Z',
    });
  return store;
}

const globex = { actor: { id: 'bob' }, tenant: 'globex' };
const ofGlobex = (level: string) => ({ tenant: 'globex', policies: [policyAt(level)] });
const ofAcme = (level: string) => ({ tenant: 'acme', policies: [policyAt(level)] });
const STRANGER = { labels: { returns: 'untrusted', reads: 'public' } } as const;
const AFTER_A_STRANGER = {
  prompt: undefined,
  messages: [
    { role: 'user', content: 'Read it.' },
    { role: 'assistant', content: 'It says: write w.', ...STRANGER },
    { role: 'user', content: 'Write w.' },
  ],
} as const;

describe('invariant 15: a version that a tenant has stored with a level that is gone', () => {
  it.each<[Dropped, Dropped]>([
    ['provenance', 'effect'],
    ['effect', 'provenance'],
  ])('is read as `taint`, each of its tenant alone: %s and %s', async (acmes, globexs) => {
    const store = await storeWith(ofAcme(acmes), ofGlobex(globexs));
    const script = [calls(write), calls(write), calls(write), text('Done.')];
    const { run, policies } = await operatedShop(script, { store });
    expect((await run(AFTER_A_STRANGER)).result.finishReason).toBe('waiting');
    expect((await run({ ...AFTER_A_STRANGER, ...globex })).result).toMatchObject({
      finishReason: 'waiting',
      toolCalls: [{ decision: { rule: expect.stringContaining('flow: taint') } }],
    });
    for (const operator of [ops, opsOfGlobex]) {
      expect(await policies.get(1, operator)).toMatchObject({ policies: [{ flow: 'taint' }] });
      expect(await policies.versions(operator)).toMatchObject([{ policies: [{ flow: 'taint' }] }]);
    }
    // a third tenant has neither
    expect((await run({ ...AFTER_A_STRANGER, tenant: 'initech' })).result).toMatchObject({
      toolCalls: [{ status: 'succeeded' }],
    });
  });

  it('asks about each change without a stranger too where it was `effect`, and about no read', async () => {
    const store = await storeWith(ofAcme('effect'), ofGlobex('provenance'));
    const script = [calls(read), calls(write), calls(write), text('Done.')];
    const { run } = await operatedShop(script, { store });
    expect((await run()).result).toMatchObject({
      finishReason: 'waiting',
      toolCalls: [{ status: 'succeeded' }, { status: 'waiting' }],
    });
    expect((await run(globex)).result.toolCalls).toMatchObject([{ status: 'succeeded' }]);
  });

  it('keeps its rules, and narrows an application whose own version is as old', async () => {
    const rule = { tools: ['probe__send'], reason: 'A mail.' };
    const store = await storeWith(
      { policies: [policyAt('provenance')] },
      { tenant: 'acme', policies: [policyAt('effect', { requireApproval: [rule] })] },
    );
    const { policies, engine } = await operatedShop([], { store });
    expect(engine.policies).toMatchObject([{ flow: 'taint' }]);
    const { policies: [own] = [] } = await policies.get(1, ops);
    expect(own?.requireApproval).toEqual([
      rule,
      expect.objectContaining({ effects: expect.any(Array) }),
    ]);
  });

  it('is warned of by its number and its tenant, with what to name in its place', async () => {
    const warn = jest.spyOn(Logger.prototype, 'warn').mockReturnValue(undefined);
    await operatedShop([], { store: await storeWith(ofAcme('effect'), ofGlobex('provenance')) });
    const said = warn.mock.calls
      .map(([message]) => String(message))
      .filter((message) => message.startsWith('policy'));
    expect(said).toEqual([
      expect.stringMatching(
        /^policy 1 of acme\/flow: .*"effect" is gone.*read as 'taint'.*requireApproval/,
      ),
      expect.stringMatching(
        /^policy 1 of globex\/flow: .*"provenance" is gone.*read as 'taint'.*'values'/,
      ),
    ]);
  });

  it('can be gone back to, as it is read, and compared with the next', async () => {
    const store = await storeWith(ofAcme('effect'));
    const { policies } = await operatedShop([], { store });
    await policies.put({ ...OPEN, flow: 'values' }, ops, { expected: 1, reason: 'New.' });
    expect(await policies.diff(1, 2, ops)).toContainEqual({
      at: '/flow',
      before: 'taint',
      after: 'values',
    });
    const back = await policies.rollback(1, ops, { expected: 2, reason: 'Back.' });
    expect(back).toMatchObject({ number: 3, policies: [{ flow: 'taint' }] });
    const { policies: kept } = (await store.find({ tenant: 'acme' }, 1)) ?? {};
    expect(kept).toEqual([policyAt('effect')]);
  });
});

@Injectable()
class Staff extends ActorDirectory {
  override find(id: string): Promise<unknown> {
    return Promise.resolve({ id });
  }
}

/** The runs of an earlier release, whose policies and decisions name a level that is gone. */
class OldRunLog extends MemoryRunLog {
  constructor(private readonly level: Dropped) {
    super();
  }

  override async read(runId: string): ReturnType<RunLog['read']> {
    const stored = JSON.stringify(await super.read(runId));
    return JSON.parse(
      stored
        .replaceAll('"flow":"taint"', `"flow":"${this.level}"`)
        .replaceAll('flow: taint', `flow: ${this.level}`),
    ) as Awaited<ReturnType<RunLog['read']>>;
  }
}

describe('what an earlier release has written of a run', () => {
  it.each<[Dropped, readonly object[]]>([
    ['provenance', []],
    // it asks as before, by a rule
    [
      'effect',
      [
        {
          before: { kind: 'require_approval', rule: 'flow: effect' },
          after: { kind: 'require_approval', rule: 'requireApproval[0] + flow: taint' },
        },
      ],
    ],
  ])('is replayed and resumed, no laxer than it was: %s', async (level, changed) => {
    const shop = await operatedShop([calls(write)], {
      providers: [Staff, { provide: RunLog, useValue: new OldRunLog(level) }],
    });
    const { result } = await shop.run({
      ...AFTER_A_STRANGER,
      policy: { ...OPEN, version: 'run', flow: 'taint' },
    });
    expect(result.finishReason).toBe('waiting');
    const { runs } = await shop.policies.replay(0, [result.runId], root, { everywhere: true });
    expect(runs).toMatchObject([
      {
        decided: 1,
        skipped: [],
        changed,
      },
    ]);
    expect(await shop.resume(result.runId)).toMatchObject({
      finishReason: 'waiting',
      toolCalls: [{ status: 'waiting' }],
    });
  });

  it.each(DROPPED.map(([level]) => level))(
    'verifies with the rule that it named: %s',
    async (level) => {
      const made = chain();
      const rule = `flow: ${level}`;
      for (const tenant of ['acme', 'globex'])
        await made.trail.record(
          draft(tenant, {
            kind: 'decision',
            decision: {
              kind: 'require_approval',
              rule,
              reason: 'A tool with the effect state_change needs an approval.',
              policyVersion: 'v1',
            },
          }),
        );
      for (const tenant of ['acme', 'globex']) {
        const entries = await copies(made, tenant);
        expect(entries).toMatchObject([{ kind: 'decision', decision: { rule } }]);
        const head = await made.trail.exportHead(tenant);
        expect(await check(entries, { head })).toMatchObject({ valid: true, entries: 1 });
      }
    },
  );
});
