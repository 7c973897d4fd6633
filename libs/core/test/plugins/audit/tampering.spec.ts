import { createHmac } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import type { JsonObject, JsonValue } from '@toolloop/core';
import type { AuditEntry } from '@toolloop/core/stores';
import * as fc from 'fast-check';
import { cases } from '../../../../../test/cases.js';
import { canonicalJson } from '../../../src/schema/canonical-json.js';
import { KEY, chain, check, copies, draft, event, grown, text } from './chains.js';

const position = fc.nat({ max: 5 });
const SIX = 6;

/** Every place in an entry where a value stands, as paths. */
function pathsOf(value: unknown, path: readonly string[] = []): string[][] {
  if (typeof value !== 'object' || value === null) return [[...path]];
  return [
    ...(path.length > 0 ? [[...path]] : []),
    ...Object.entries(value).flatMap(([name, part]) => pathsOf(part, [...path, name])),
  ];
}

function withValue(
  value: unknown,
  [name, ...rest]: readonly string[],
  changed: JsonValue | undefined,
): unknown {
  if (name === undefined) return changed;
  const entries = Object.entries(value as object).map(([key, part]): [string, unknown] => [
    key,
    key === name ? withValue(part, rest, changed) : part,
  ]);
  const kept = entries.filter(([, part]) => part !== undefined);
  return Array.isArray(value) ? kept.map(([, part]) => part) : Object.fromEntries(kept);
}

function swapped<T>(list: readonly T[], one: number, other: number): T[] {
  return list.map((item, index) =>
    index === one ? list[other] : index === other ? list[one] : item,
  );
}

/** A forger who knows the format, the key's id and all entries, but not the key. */
function forged(entry: AuditEntry, key: string): AuditEntry {
  const { hash: _, ...unsigned } = entry;
  const hash = createHmac('sha256', key)
    .update(canonicalJson(unsigned as unknown as JsonObject))
    .digest('hex');
  return { ...entry, hash };
}

describe('invariant 14: of a chain of entries', () => {
  it('every one verifies, whatever it says', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(event, { minLength: 1, maxLength: 6 }),
        text,
        async (events, tenant) => {
          const made = chain();
          for (const happened of events) await made.trail.record(draft(tenant, happened));
          const head = await made.trail.exportHead(tenant);
          expect(await check(await copies(made, tenant), { head })).toEqual({
            valid: true,
            tenant,
            entries: events.length,
          });
        },
      ),
    );
  });

  it('any changed, added or removed value is found where it stands', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(event, { minLength: 1, maxLength: 4 }),
        fc.nat(),
        fc.nat(),
        fc.option(fc.jsonValue() as fc.Arbitrary<JsonValue>, { nil: undefined }),
        async (events, which, where, value) => {
          const made = chain();
          for (const happened of events) await made.trail.record(draft('acme', happened));
          const entries = await copies(made, 'acme');
          const index = which % entries.length;
          const original = entries[index];
          const paths = [...pathsOf(original), ['added']];
          const path = paths[where % paths.length] ?? [];
          const changed =
            path[0] === 'added'
              ? { ...original, added: value ?? 1 }
              : withValue(original, path, value);
          fc.pre(JSON.stringify(changed) !== JSON.stringify(original));
          const found = await check(entries.with(index, changed as AuditEntry), { tenant: 'acme' });
          expect(found).toMatchObject({ valid: false, sequence: index + 1 });
        },
      ),
      { numRuns: cases(400) },
    );
  });

  it('one that is removed is missed, at the end too where a head is given', async () => {
    const made = await grown('acme', SIX);
    const [entries, head] = [await copies(made, 'acme'), await made.trail.exportHead('acme')];
    await fc.assert(
      fc.asyncProperty(position, async (index) => {
        const reason = index === SIX - 1 ? 'cut' : 'removed';
        expect(await check(entries.toSpliced(index, 1), { head })).toMatchObject({
          valid: false,
          sequence: index + 1,
          reason,
        });
      }),
    );
  });

  it('two that are swapped are found, and where they belong', async () => {
    const entries = await copies(await grown('acme', SIX), 'acme');
    await fc.assert(
      fc.asyncProperty(position, position, async (one, other) => {
        fc.pre(one !== other);
        const found = await check(swapped(entries, one, other));
        expect(found).toMatchObject({
          valid: false,
          sequence: Math.min(one, other) + 1,
          reason: 'reordered',
        });
      }),
    );
  });

  it('any that are cut from the end show by a head, and only by one', async () => {
    const made = await grown('acme', SIX);
    const [entries, head] = [await copies(made, 'acme'), await made.trail.exportHead('acme')];
    await fc.assert(
      fc.asyncProperty(position, async (kept) => {
        expect(await check(entries.slice(0, kept), { head })).toMatchObject({
          valid: false,
          sequence: kept + 1,
          reason: 'cut',
        });
        expect(await check(entries.slice(0, kept))).toMatchObject({ valid: true, entries: kept });
      }),
    );
  });

  it('one that is repeated is found, behind itself or before', async () => {
    const entries = await copies(await grown('acme', SIX), 'acme');
    await fc.assert(
      fc.asyncProperty(position, fc.nat({ max: SIX }), async (index, at) => {
        fc.pre(at !== index); // there it is the next one that is the copy
        const reason = at > index ? 'repeated' : 'reordered';
        expect(await check(entries.toSpliced(at, 0, entries[index]))).toMatchObject({
          valid: false,
          sequence: at + 1,
          reason,
        });
      }),
    );
  });

  it("another tenant's is found, put between or in place of one", async () => {
    const [acme, globex] = [await grown('acme', SIX), await grown('globex', SIX)];
    const [entries, others] = [await copies(acme, 'acme'), await copies(globex, 'globex')];
    await fc.assert(
      fc.asyncProperty(
        position,
        position,
        fc.integer({ min: 0, max: 1 }),
        async (index, from, instead) => {
          const other = others[from];
          const found = await check(entries.toSpliced(index, instead, other), { tenant: 'acme' });
          expect(found).toMatchObject({
            valid: false,
            sequence: index + 1,
            reason: 'wrong_tenant',
          });
        },
      ),
    );
  });

  it('none that a forger without the key made verifies', async () => {
    const entries = await copies(await grown('acme', SIX), 'acme');
    await fc.assert(
      fc.asyncProperty(position, text, async (index, key) => {
        const entry = entries[index];
        const found = await check(
          entries.with(index, forged({ ...entry, actorId: 'mallory' }, key)),
        );
        expect(found).toMatchObject({ valid: false, sequence: index + 1, reason: 'changed' });
      }),
    );
  });

  it('one that has the key does: the tests above fail for want of it', async () => {
    const [first] = await copies(await grown('acme', 1), 'acme');
    const entry = forged({ ...first, actorId: 'mallory' }, KEY);
    expect(await check([entry])).toMatchObject({ valid: true });
  });

  it('a head that a forger made is found', async () => {
    const made = await grown('acme', 2);
    const head = await made.trail.exportHead('acme');
    const older = { ...head, sequence: 1, hash: (await copies(made, 'acme'))[0].hash };
    expect(await check(await copies(made, 'acme'), { head: older })).toMatchObject({
      valid: false,
      reason: 'bad_head',
    });
  });

  it("another tenant's head is found", async () => {
    const head = await (await grown('globex', 2)).trail.exportHead('globex');
    expect(await check(await copies(await grown('acme', 2), 'acme'), { head })).toMatchObject({
      valid: false,
      reason: 'wrong_tenant',
    });
    expect(await check([], { head, tenant: 'acme' })).toMatchObject({
      valid: false,
      reason: 'wrong_tenant',
    });
  });

  it('a course that left the one a head knows is found, though every entry is genuine', async () => {
    const made = await grown('acme', 3);
    const head = await made.trail.exportHead('acme');
    const restored = chain();
    for (const code of ['timeout', 'forbidden', 'forbidden', 'forbidden'] as const)
      await restored.trail.record(draft('acme', { kind: 'denied', code }));
    expect(await check(await copies(restored, 'acme'), { head })).toMatchObject({
      valid: false,
      sequence: 3,
      reason: 'forked',
    });
    const [first] = await copies(made, 'acme');
    const mixed = [first, ...(await copies(restored, 'acme')).slice(1)];
    expect(await check(mixed)).toMatchObject({ valid: false, sequence: 2, reason: 'forked' });
  });

  it('a value that is not an entry is found and throws nothing', async () => {
    const [entry] = await copies(await grown('acme', 1), 'acme');
    let deep: unknown = 1;
    for (let depth = 0; depth < 100_000; depth += 1) deep = [deep];
    const nothings = [
      undefined,
      null,
      1,
      'x',
      [],
      {},
      { ...entry, sequence: '1' },
      { ...entry, version: 2 },
      { ...entry, hash: null },
    ];
    for (const nothing of nothings)
      expect(await check([nothing])).toMatchObject({
        valid: false,
        sequence: 1,
        reason: 'malformed',
      });
    for (const extra of [1n, Number.NaN, deep, () => 1])
      expect(await check([{ ...entry, extra }])).toMatchObject({
        valid: false,
        sequence: 1,
        reason: 'changed',
      });
  });
});
