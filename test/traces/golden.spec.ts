import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { Desk } from './desk.js';
import { type Scenario, SCENARIOS } from './scenarios.js';

const FOLDER = 'test/traces/golden';
const IS_UPDATED = process.env['UPDATE_GOLDEN'] === '1';

const fileOf = (name: string): string => `${FOLDER}/${name.replaceAll(' ', '-')}.json`;

async function traceOf({
  script,
  options,
  play = (desk) => desk.run(),
}: Scenario): Promise<string> {
  const desk = await Desk.open(script, options);
  await play(desk);
  return `${JSON.stringify(await desk.trace(), undefined, 1)}\n`;
}

/**
 * What must stay byte for byte while the code behind it moves. `UPDATE_GOLDEN=1` writes the traces
 * anew, for a change that means to change one.
 */
describe('the golden traces', () => {
  it.each(SCENARIOS)(
    'show $name in events, messages and stored entries as they were',
    async (scenario) => {
      const trace = await traceOf(scenario);
      if (IS_UPDATED) writeFileSync(fileOf(scenario.name), trace);
      expect(trace).toBe(
        existsSync(fileOf(scenario.name)) ? readFileSync(fileOf(scenario.name), 'utf8') : '',
      );
    },
  );

  it('have a scenario for each file, under names of their own', () => {
    expect(readdirSync(FOLDER).toSorted()).toEqual(
      SCENARIOS.map(({ name }) => fileOf(name).slice(FOLDER.length + 1)).toSorted(),
    );
    expect(new Set(SCENARIOS.map(({ name }) => name)).size).toBe(SCENARIOS.length);
  });
});
