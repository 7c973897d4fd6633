import { createHash, createHmac } from 'node:crypto';
import { inspect } from 'node:util';
import { describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { ConfigurationError, type JsonObject } from '@toolloop/core';
import { AuditError, type AuditKeys, type AuditOptions, AuditTrail } from '@toolloop/core/audit';
import {
  type AuditEntry,
  type AuditHead,
  AuditStore,
  MemoryAuditStore,
} from '@toolloop/core/stores';
import * as fc from 'fast-check';
import { firstValueFrom, Subject } from 'rxjs';
import { cases } from '../../../../../test/cases.js';
import { AuditKeyring } from '../../../src/plugins/audit/audit-keyring.js';
import { BoundedAudit } from '../../../src/call/bounded-audit.js';
import { longerThanStores } from '../../../src/call/store-calls.js';
import { canonicalJson } from '../../../src/schema/canonical-json.js';
import { KEY, chain, check, copies, draft, grown, type Chain } from './chains.js';

/** What the last entry says. */
async function last(made: Chain, tenant = 'acme'): Promise<AuditEntry | undefined> {
  return (await copies(made, tenant)).at(-1);
}

/** Answers late and in no order, as a database does; one tenant's appends must not overlap. */
class SlowStore extends MemoryAuditStore {
  overlaps = 0;
  private readonly busy = new Set<string>();

  override async append(
    tenant: string,
    build: (head: AuditHead | undefined) => AuditEntry,
  ): Promise<void> {
    if (this.busy.has(tenant)) this.overlaps += 1;
    this.busy.add(tenant);
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 3));
    await super.append(tenant, build);
    this.busy.delete(tenant);
  }
}

/** A store that does with an append what a test says. */
class OddStore extends MemoryAuditStore {
  answer: (() => Promise<void>) | undefined;

  override append(
    tenant: string,
    build: (head: AuditHead | undefined) => AuditEntry,
  ): void | Promise<void> {
    return this.answer ? this.answer() : super.append(tenant, build);
  }
}

describe('an entry', () => {
  it('says what happened, for whom, and where it stands', async () => {
    const made = chain();
    await made.trail.record({ ...draft('acme'), result: 'héllo' });
    expect(await last(made)).toEqual({
      version: 1,
      tenant: 'acme',
      sequence: 1,
      at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      keyId: '1',
      previousHash: expect.stringMatching(/^[0-9a-f]{64}$/),
      hash: expect.stringMatching(/^[0-9a-f]{64}$/),
      entryId: expect.stringMatching(/^[0-9a-f-]{36}$/),
      actorId: 'ada',
      runId: 'run_1',
      toolCallId: 'call_1',
      step: 1,
      declaredId: 'crm__search',
      kind: 'decision',
      decision: {
        kind: 'allow',
        rule: 'allow: crm__*',
        reason: 'The policy allows this tool.',
        policyVersion: 'v1',
      },
      argsHash: expect.stringMatching(/^[0-9a-f]{64}$/),
      resultBytes: 6,
      resultHash: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
  });

  it('names the entry before it, and the first of a tenant what only that tenant begins with', async () => {
    const made = await grown('acme', 2);
    await made.trail.record(draft('globex'));
    const [[first, second], [other]] = [await copies(made, 'acme'), await copies(made, 'globex')];
    expect(second?.previousHash).toBe(first?.hash);
    expect(other?.previousHash).not.toBe(first?.previousHash);
  });

  it('is frozen to its depths, and shares nothing with what it was made of', async () => {
    const made = chain();
    const decision = { kind: 'deny', rule: 'default', reason: 'No.', policyVersion: 'v1' } as const;
    await made.trail.record(draft('acme', { kind: 'decision', decision, shadow: [decision] }));
    const [entry] = await made.store.read('acme', { from: 1, limit: 1 });
    expect(
      entry?.kind === 'decision' && [entry, entry.decision, entry.shadow].every(Object.isFrozen),
    ).toBe(true);
    expect(Object.isFrozen(decision)).toBe(false);
  });

  it.each<[string, JsonObject]>([
    ['names that are numbers', { z: 1, 10: 'ten', 9: { 2: [], 11: [{ b: null, a: -0.5 }] } }],
    [
      'a name that is a prototype elsewhere',
      JSON.parse('{"b":{"__proto__":{"y":1}},"a":[]}') as JsonObject,
    ],
    ['a name without a character', { b: 1, '': { a: true } }],
    ['half a character', { '\ud800': '\udc00 "\u2028', a: 1e21 }],
  ])(
    'is signed as the text that an export writes, and says what it was told, with %s',
    async (_, details) => {
      const made = chain();
      await made.trail.record(
        draft('acme', { kind: 'directive-requested', directiveId: 'd', details }),
      );
      let line = '';
      for await (const each of made.trail.exportLines('acme')) line += each;
      const { hash, ...unsigned } = JSON.parse(line) as AuditEntry;
      expect(hash).toBe(
        createHmac('sha256', KEY)
          .update(canonicalJson(unsigned as unknown as JsonObject))
          .digest('hex'),
      );
      expect((unsigned as { details?: unknown }).details).toEqual(details);
      const [entry] = await made.store.read('acme', { from: 1, limit: 1 });
      expect(JSON.parse(line)).toEqual(entry);
      expect(await check(await copies(made, 'acme'))).toMatchObject({ valid: true });
    },
  );

  it('is refused when it is no JSON', async () => {
    const made = chain();
    const details = { big: 1n } as unknown as JsonObject;
    await expect(
      made.trail.record(draft('acme', { kind: 'source', source: 'mcp', details })),
    ).rejects.toThrow(AuditError);
    await expect(
      made.trail.record(
        draft('acme', { kind: 'source', source: 'mcp', details: { no: Number.NaN } }),
      ),
    ).rejects.toThrow(AuditError);
    expect(await last(made)).toBeUndefined();
  });

  it('cannot be told by a draft where it stands', async () => {
    const made = chain();
    const { subject, ...rest } = draft('acme');
    const lies = {
      tenant: 'globex',
      sequence: 7,
      keyId: 'x',
      previousHash: 'x',
      hash: 'x',
      version: 2,
    };
    await made.trail.record({ ...rest, subject: { ...subject, ...lies } });
    expect(await check(await copies(made, 'acme'))).toEqual({
      valid: true,
      tenant: 'acme',
      entries: 1,
    });
  });

  it('keeps a name that a model made up only as far as it is worth it', async () => {
    const made = chain();
    const { subject, ...rest } = draft('acme', { kind: 'denied', code: 'unknown_tool' });
    await made.trail.record({ ...rest, subject: { ...subject, calledId: 'x'.repeat(10_000) } });
    expect((await last(made))?.calledId).toBe('x'.repeat(64));
  });

  it('is refused when it is larger than any entry needs to be', async () => {
    const made = chain();
    const huge = draft('acme', { kind: 'opt-out', names: [], reason: 'x'.repeat(300_000) });
    await expect(made.trail.record(huge)).rejects.toThrow(AuditError);
    expect(await last(made)).toBeUndefined();
  });
});

/** The entry of a call with these arguments. */
async function withArguments(
  options: Partial<AuditOptions>,
  text: string,
  hidden?: readonly string[],
): Promise<AuditEntry | undefined> {
  const made = chain(options);
  await made.trail.record({ ...draft('acme'), arguments: { text, ...(hidden && { hidden }) } });
  return last(made);
}

describe('the arguments of a call', () => {
  const secret = fc.stringMatching(/^[a-z0-9]{12,20}$/);
  it('appear in no entry, nor a hash that could be guessed', async () => {
    await fc.assert(
      fc.asyncProperty(secret, async (password) => {
        const args = JSON.stringify({ password });
        const kept = JSON.stringify(await withArguments({}, args, []));
        expect(kept).not.toContain(password);
        expect(kept).not.toContain(createHash('sha256').update(args).digest('hex'));
      }),
    );
  });

  it('are kept on demand, but for the hidden ones', async () => {
    await fc.assert(
      fc.asyncProperty(secret, async (password) => {
        const entry = await withArguments(
          { arguments: 'redacted' },
          JSON.stringify({ password, user: 'ada' }),
          ['password'],
        );
        expect(entry?.args).toEqual({ password: '[redacted]', user: 'ada' });
        expect(JSON.stringify(entry)).not.toContain(password);
      }),
    );
  });

  it('are only hashed when they were not read', async () => {
    const entry = await withArguments({ arguments: 'redacted' }, '{"tenant": s3cret', undefined);
    expect(entry).toHaveProperty('argsHash');
    expect(JSON.stringify(entry)).not.toContain('s3cret');
  });

  it('have one hash within a tenant and another in the next', async () => {
    const made = chain();
    for (const tenant of ['acme', 'acme', 'globex']) await made.trail.record(draft(tenant));
    const [[one, two], [other]] = [await copies(made, 'acme'), await copies(made, 'globex')];
    expect(two?.argsHash).toBe(one?.argsHash);
    expect(other?.argsHash).not.toBe(one?.argsHash);
  });
});

describe('recording', () => {
  it('keeps the chains of two tenants whole when both record at once', async () => {
    const store = new SlowStore();
    const made = chain({}, store);
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.constantFrom('acme', 'globex'), { maxLength: 20 }),
        async (tenants) => {
          await Promise.all(tenants.map((tenant) => made.trail.record(draft(tenant))));
          expect(await check(await copies(made, 'acme'), { tenant: 'acme' })).toMatchObject({
            valid: true,
          });
          expect(await check(await copies(made, 'globex'), { tenant: 'globex' })).toMatchObject({
            valid: true,
          });
        },
      ),
      { numRuns: cases(15) },
    );
    expect(store.overlaps).toBe(0);
  });

  it('keeps the order in which it was asked', async () => {
    const made = chain({}, new SlowStore());
    const numbers = Array.from({ length: 20 }, (_, durationMs) => durationMs);
    const outcomes = numbers.map((durationMs) =>
      draft('acme', { kind: 'outcome', status: 'succeeded', durationMs }),
    );
    await Promise.all(outcomes.map((outcome) => made.trail.record(outcome)));
    expect(await copies(made, 'acme')).toMatchObject(numbers.map((durationMs) => ({ durationMs })));
  });

  it('has two hundred entries that come at once in their order, where the store is memory', async () => {
    const made = chain();
    await made.trail.record(draft('acme')); // its last key is looked at once
    const kept = Array.from({ length: 200 }, (_, durationMs) =>
      made.trail.record(draft('acme', { kind: 'outcome', status: 'succeeded', durationMs })),
    );
    await Promise.all(kept);
    const entries = await copies(made, 'acme');
    expect(entries.slice(1)).toMatchObject(kept.map((_, durationMs) => ({ durationMs })));
    expect(await check(entries)).toMatchObject({ valid: true, entries: 201 });
  });

  it('waits behind the entries that are not stored yet, though the store would keep it at once', async () => {
    const store = new OddStore();
    const made = chain({}, store);
    await made.trail.record(draft('acme'));
    const stored = new Subject<void>();
    store.answer = () => firstValueFrom(stored);
    const slow = made.trail.record(draft('acme', { kind: 'denied', code: 'forbidden' }));
    store.answer = undefined;
    const behind = made.trail.record(draft('acme'));
    expect(await copies(made, 'acme')).toHaveLength(1);
    stored.next();
    await Promise.all([slow, behind]);
    expect(await check(await copies(made, 'acme'))).toMatchObject({ valid: true, entries: 2 });
  });

  it('is refused where a store throws at once', async () => {
    const store = new OddStore();
    const made = chain({}, store);
    await made.trail.record(draft('acme'));
    store.answer = () => {
      throw new Error('disk full');
    };
    await expect(made.trail.record(draft('acme'))).rejects.toMatchObject({
      name: 'AuditError',
      cause: new Error('disk full'),
    });
  });

  it('is refused when the store refuses, without a word of the arguments, and continues afterwards', async () => {
    const store = new OddStore();
    const made = chain({}, store);
    store.answer = () => Promise.reject(new Error('disk full'));
    const refused = made.trail.record({
      ...draft('acme'),
      arguments: { text: '{"password":"s3cret"}' },
    });
    await expect(refused).rejects.toMatchObject({
      name: 'AuditError',
      message: 'The audit could not keep an entry (decision, run run_1).',
      cause: new Error('disk full'),
    });
    store.answer = undefined;
    await made.trail.record(draft('acme'));
    expect(await check(await copies(made, 'acme'))).toMatchObject({ valid: true, entries: 1 });
  });

  it('holds up neither another tenant nor, for ever, its own where the store does not answer', async () => {
    jest.useFakeTimers();
    try {
      const store = new OddStore();
      const made = { store, trail: new AuditTrail(new BoundedAudit(store), { key: KEY }) };
      store.answer = () => new Promise(() => {});
      const stuck = made.trail.record(draft('acme'));
      await jest.advanceTimersByTimeAsync(1); // the store has it
      store.answer = undefined;
      const waiting = made.trail.record(draft('acme'));
      await made.trail.record(draft('globex'));
      await jest.advanceTimersByTimeAsync(longerThanStores(2));
      await waiting;
      await stuck; // by its second attempt
      expect(await copies(made, 'acme')).toHaveLength(2);
    } finally {
      jest.useRealTimers();
    }
  });

  it('leaves no timer behind', async () => {
    jest.useFakeTimers();
    try {
      await grown('acme', 3);
      expect(jest.getTimerCount()).toBe(0);
    } finally {
      jest.useRealTimers();
    }
  });
});

describe('a head', () => {
  it('is signed for a tenant without entries as well', async () => {
    const made = chain();
    const head = await made.trail.exportHead('acme');
    expect(head).toMatchObject({ tenant: 'acme', sequence: 0 });
    expect(await check([], { head })).toEqual({ valid: true, tenant: 'acme', entries: 0 });
  });

  it('says nothing against entries that came after it', async () => {
    const made = await grown('acme', 2);
    const head = await made.trail.exportHead('acme');
    await made.trail.record(draft('acme'));
    expect(await check(await copies(made, 'acme'), { head })).toMatchObject({
      valid: true,
      entries: 3,
    });
  });
});

describe('the key', () => {
  const newer = { id: '2', secret: Buffer.alloc(32, 7) };
  const both: AuditKeys = [newer, { id: '1', secret: KEY }];

  it.each([
    ['another', 'another key of more than thirty-two bytes', 1],
    ['the same', KEY, 0],
    [
      'a new one beside the old',
      [
        { id: '2', secret: 'another key of more than thirty-two bytes' },
        { id: '1', secret: KEY },
      ],
      0,
    ],
  ] satisfies [string, AuditKeys, number][])(
    'warns once, with %s key, if the chain could not be verified as a whole',
    async (_which, key, times) => {
      const { store } = await grown('acme', 2);
      const warned = jest.spyOn(Logger.prototype, 'warn').mockReturnValue();
      try {
        const { trail } = chain({ key }, store);
        await trail.record(draft('acme'));
        await trail.record(draft('acme'));
        await trail.record(draft('globex'));
        expect(
          warned.mock.calls.filter(([text]) =>
            String(text).includes('tenant "acme" was not signed'),
          ),
        ).toHaveLength(times);
        expect(warned).toHaveBeenCalledTimes(times);
      } finally {
        warned.mockRestore();
      }
    },
  );

  it('can be rotated: what either signed verifies with both', async () => {
    const made = await grown('acme', 2);
    const renewed = chain({ key: both }, made.store);
    await renewed.trail.record(draft('acme'));
    const entries = await copies(made, 'acme');
    expect(entries.map(({ keyId }) => keyId)).toEqual(['1', '1', '2']);
    const head = await renewed.trail.exportHead('acme');
    expect(await check(entries, { keys: both, head })).toMatchObject({ valid: true, entries: 3 });
    expect(await check(entries, { keys: KEY })).toMatchObject({
      valid: false,
      sequence: 3,
      reason: 'unknown_key',
    });
    expect(await check(entries, { keys: [newer] })).toMatchObject({
      valid: false,
      sequence: 1,
      reason: 'unknown_key',
    });
  });

  it('verifies nothing when another one has a known id', async () => {
    const entries = await copies(await grown('acme', 2), 'acme');
    expect(await check(entries, { keys: 'x'.repeat(32) })).toMatchObject({
      valid: false,
      sequence: 1,
      reason: 'changed',
    });
  });

  it('signs a text of any length and in any script as HMAC-SHA256 does', () => {
    const secret = fc.uint8Array({ minLength: 32, maxLength: 200 });
    const anyText = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 80 }),
      fc.integer({ min: 4_990, max: 5_010 }).map((most) => '界'.repeat(most)),
    );
    fc.assert(
      fc.property(secret, fc.array(anyText, { minLength: 1, maxLength: 4 }), (key, texts) => {
        const keyring = new AuditKeyring(key);
        for (const each of texts) {
          const signed = `result:${each}` as const;
          expect(keyring.sign(signed)).toBe(createHmac('sha256', key).update(signed).digest('hex'));
        }
      }),
      { numRuns: cases(100) },
    );
  });

  it('may be given as base64', async () => {
    const entries = await copies(
      await grown('acme', 1, `base64:${Buffer.from(KEY).toString('base64')}`),
      'acme',
    );
    expect(await check(entries)).toMatchObject({ valid: true });
  });

  it.each<[string, unknown, string]>([
    ['that is missing', undefined, 'There is no key.'],
    ['list that is empty', [], 'There is no key.'],
    ['that is too short', 'k'.repeat(31), 'The key has fewer than 32 bytes.'],
    ['that is too short as bytes', new Uint8Array(31), 'The key has fewer than 32 bytes.'],
    [
      'that is too short behind base64',
      `base64:${'A'.repeat(40)}`,
      'The key has fewer than 32 bytes.',
    ],
    ['without an id', [{ id: '', secret: KEY }], 'Key 1 has no id.'],
    ['whose id is taken', [newer, { id: '2', secret: KEY }], 'Two keys have the id "2".'],
  ])('%s is a finding', (_, key, problem) => {
    const open = () => new AuditTrail(new MemoryAuditStore(), { key: key as AuditKeys });
    expect(open).toThrow(ConfigurationError);
    expect(open).toThrow(
      expect.objectContaining({
        findings: [expect.objectContaining({ at: 'audit key', problem })],
      }),
    );
  });

  it('is never in what a finding says', () => {
    expect(() => chain({ key: 's3cret' })).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining('s3cret') }),
    );
  });

  it('is printed neither with the trail nor with its store', async () => {
    const made = await grown('acme', 1);
    expect(inspect(made, { depth: 20, showHidden: true })).not.toContain(KEY);
    expect(JSON.stringify(made)).not.toContain(KEY);
  });

  it('is not the only option that is checked', () => {
    const wrong = { arguments: 'all' } as unknown as Partial<AuditOptions>;
    expect(() => chain(wrong)).toThrow(
      expect.objectContaining({ findings: [expect.objectContaining({ at: 'audit arguments' })] }),
    );
  });
});

describe('the store in memory', () => {
  it('gives its entries page by page', async () => {
    const { store } = await grown('acme', 5);
    const page = async (from: number, limit: number) =>
      (await store.read('acme', { from, limit })).map(({ sequence }) => sequence);
    expect([await page(1, 2), await page(3, 2), await page(5, 2), await page(6, 2)]).toEqual([
      [1, 2],
      [3, 4],
      [5],
      [],
    ]);
    expect(await store.read('globex', { from: 1, limit: 2 })).toEqual([]);
    expect(await store.head('globex')).toBeUndefined();
  });

  it('forgets nothing when it is full: it takes no more of that tenant', async () => {
    const made = chain({}, new MemoryAuditStore({ mostEntries: 2 }));
    for (const tenant of ['acme', 'acme', 'globex']) await made.trail.record(draft(tenant));
    await expect(made.trail.record(draft('acme'))).rejects.toThrow(AuditError);
    await made.trail.record(draft('globex'));
    expect(
      [await copies(made, 'acme'), await copies(made, 'globex')].map(({ length }) => length),
    ).toEqual([2, 2]);
  });

  it('cannot be changed through what it hands out', async () => {
    const made = await grown('acme', 2);
    const page = (await made.store.read('acme', { from: 1, limit: 2 })) as AuditEntry[];
    page.length = 0;
    expect(await made.store.read('acme', { from: 1, limit: 2 })).toHaveLength(2);
  });

  it('is a port that only grows', () => {
    expect(Object.getOwnPropertyNames(MemoryAuditStore.prototype)).not.toContainEqual(
      expect.stringMatching(/update|delete|remove|clear/),
    );
    expect(new MemoryAuditStore()).toBeInstanceOf(AuditStore);
  });
});
