import { expect, it } from '@jest/globals';
import type { LoopEvent } from '@toolloop/core';
import type { RunEntry } from '@toolloop/core/internal';
import type { RunWrite } from '@toolloop/core/stores';
import { writing } from '../src/runs/run-statements.js';

const hold = { runId: 'run', owner: 'me', epoch: 1 };
const event: LoopEvent = {
  type: 'text-delta',
  step: 1,
  text: 'x',
  runId: 'run',
  sequence: 7,
  timestamp: '2026-01-01T00:00:00.000Z',
};
const entry = (type: 'step' | 'model', number: number): RunEntry => ({
  type,
  key: `${type}:${number}`,
  value: {},
});

const many = (count: number): RunWrite => ({
  entries: Array.from({ length: count }, (_, number) => entry('model', number)),
  events: [event],
});

/** The tables that a statement writes, in its order. */
function tablesOf(write: RunWrite): readonly string[] {
  const { text } = writing(hold, write, false).statement;
  return [...text.matchAll(/(?:insert into|update|delete from) toolloop\.(\w+)/g)].map(
    ([, table]) => table ?? '',
  );
}

it('A write has no part for what it lacks: each costs the server as much as a row.', () => {
  expect(tablesOf({ entries: [], events: [event] })).toEqual(['runs', 'run_events']);
  expect(tablesOf({ entries: [entry('model', 1)], events: [] })).toEqual(['runs', 'run_entries']);
});

it('What a step ended with is kept in the row of the events, and costs no row of its own.', () => {
  const write = {
    entries: [entry('step', 1), entry('model', 2)],
    dropped: ['model:1'],
    events: [event],
  };
  expect(tablesOf(write)).toEqual(['runs', 'run_events', 'run_entries', 'run_entries']);
});

it('The entries of a write keep their order: what comes behind one that may be dropped has a row of its own, too.', () => {
  const { values } = writing(
    hold,
    { entries: [entry('model', 1), entry('step', 1)], events: [event] },
    false,
  );
  expect(values).toContain(null); // no ends with the events
  expect(values.flat()).toEqual(
    expect.arrayContaining([JSON.stringify(entry('model', 1)), JSON.stringify(entry('step', 1))]),
  );
});

it('Writes of the same parts are one statement, however many rows they have, so that a session keeps few of them.', () => {
  const [two, nine] = [writing(hold, many(2), true), writing(hold, many(9), true)];
  expect(two.statement).toBe(nine.statement);
  expect(writing(hold, many(1), true).statement.name).not.toBe(two.statement.name);
});

it('A write notifies only where a notification may be heard.', () => {
  const texts = [true, false].map(
    (isHeard) => writing(hold, { entries: [], events: [event] }, isHeard).statement.text,
  );
  expect(texts.map((text) => text.includes('pg_notify'))).toEqual([true, false]);
});
