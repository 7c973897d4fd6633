import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { afterEach, describe, expect, it } from '@jest/globals';
import { InvalidRequestError, PendingError } from '@toolloop/core';
import { verifyAudit } from '@toolloop/core/audit';
import { programArguments } from '../program.js';
import { AUDIT_KEY, bob, carl, type Kind, OPEN } from './desk.js';
import { endOf, type File, fileOf, formFolder, listForms, nameOf } from './files.js';
import { type Circumstances, Passage } from './passage.js';
import { reportOf } from './report.js';
import { KINDS, type Situation, SITUATIONS } from './situations.js';

const IS_UPDATED = process.env['UPDATE_SAVED'] === '1';

/** A saved run, and the application that it is of. */
interface Saved {
  readonly form: string;
  readonly name: string;
  readonly kind: Kind;
  readonly situation: Situation;
}

const NAMED = SITUATIONS.flatMap((situation) =>
  (situation.kinds ?? KINDS).map((kind) => ({
    kind,
    situation,
    name: nameOf(kind, situation.name),
  })),
);
if (IS_UPDATED)
  execFileSync(process.execPath, [...programArguments('test/saved-runs/write.ts')], {
    stdio: 'inherit',
  });
const SAVED: readonly Saved[] = listForms().flatMap((form) =>
  NAMED.filter(({ name }) => existsSync(fileOf(form, name))).map(({ name, kind, situation }) => ({
    form,
    name,
    kind,
    situation,
  })),
);

/** Tells if an effect is one of a tool, by its declared id. */
function isOf(effect: string, declaredId: string): boolean {
  const [word = ''] = effect.split(' ');
  return declaredId.endsWith(`_${word}`);
}

const passages: Passage[] = [];

afterEach(async () => {
  await Promise.all(passages.splice(0).map((passage) => passage.close()));
});

function read({ form, name }: Saved): File {
  return JSON.parse(readFileSync(fileOf(form, name), 'utf8')) as File;
}

async function found(
  { kind, situation }: Saved,
  { stored }: File,
  circumstances?: Circumstances,
): Promise<Passage> {
  const passage = await Passage.find(kind, situation, stored, circumstances);
  passages.push(passage);
  return passage;
}

/** Compares with what is kept, or keeps it. */
function expectKept(name: string, report: unknown): void {
  const told = `${JSON.stringify(report, undefined, 1)}\n`;
  if (IS_UPDATED) writeFileSync(endOf(name), told);
  expect(told).toBe(existsSync(endOf(name)) ? readFileSync(endOf(name), 'utf8') : '');
}

describe('a run that was saved', () => {
  it.each(SAVED)('ends as $name of $form ended, and no effect takes place twice', async (saved) => {
    const file = read(saved);
    const passage = await found(saved, file);
    await passage.finish();
    const all = [...file.effects, ...passage.effects];
    expect(all).toEqual([...new Set(all)]);
    expect(await verifyAudit(await passage.audit(), { keys: AUDIT_KEY })).toMatchObject({
      valid: true,
    });
    expectKept(saved.name, await reportOf(passage, file.stored));
  });

  it.each(SAVED)('is not continued for others: $name of $form', async (saved) => {
    const file = read(saved);
    const passage = await found(saved, file, { isIdle: true });
    const before = await passage.state();
    for (const person of [carl, bob]) {
      for (const asked of await passage.asked())
        await expect(passage.answer(asked, person)).rejects.toThrow(PendingError);
      for (const run of file.stored.runs)
        await expect(passage.resumeFor(run.record, person)).rejects.toThrow(InvalidRequestError);
    }
    expect(await passage.state()).toEqual(before);
    expect(passage.effects).toEqual([]);
  });

  it.each(SAVED)('has no effect that is denied by now: $name of $form', async (saved) => {
    const file = read(saved);
    const { setup = {}, about } = saved.situation;
    const policy = { ...(setup.policy ?? OPEN), version: 'stricter', deny: about };
    const passage = await found(saved, file, { setup: { ...setup, policy } });
    await passage.finish();
    expect(effectsOf(about, passage)).toEqual([]);
    expect(endIn(saved).effects).toEqual(expect.arrayContaining(passage.effects));
    const known = file.stored.journal.flatMap(({ call, outcome }) =>
      outcome ? call.declaredId : [],
    );
    const made = passage.results.filter(
      ({ declaredId = '', status }) => about.includes(declaredId) && status !== 'denied',
    );
    expect(known).toEqual(expect.arrayContaining(made.map(({ declaredId }) => declaredId)));
  });

  it.each(SAVED)(
    'asks again about a tool that is another one by now: $name of $form',
    async (saved) => {
      const file = read(saved);
      const passage = await found(saved, file, { isChanged: true });
      await passage.finishOnce();
      expect(endIn(saved).effects).toEqual(expect.arrayContaining(passage.effects));
      expect(effectsOf(approvedIn(saved, file), passage)).toEqual([]);
    },
  );

  it('is kept in today’s form for each situation, under a name of its own', () => {
    const kept = listForms().map((form) => readdirSync(formFolder(form)).toSorted());
    expect(kept).toContainEqual(NAMED.map(({ name }) => name).toSorted());
    expect(new Set(NAMED.map(({ name }) => name)).size).toBe(NAMED.length);
  });
});

/** The tools about which people said yes, or are asked, while they were as they were. */
function approvedIn({ situation }: Saved, { stored }: File): readonly string[] {
  return stored.pending.flatMap(({ kind, binding }) => {
    if (kind === 'rehearsal') return situation.about;
    return kind === 'approval' ? [binding.declaredId] : [];
  });
}

function effectsOf(declaredIds: readonly string[], { effects }: Passage): readonly string[] {
  return effects.filter((effect) => declaredIds.some((id) => isOf(effect, id)));
}

function endIn({ name }: Saved): { readonly effects: readonly string[] } {
  return JSON.parse(readFileSync(endOf(name), 'utf8')) as { readonly effects: readonly string[] };
}
