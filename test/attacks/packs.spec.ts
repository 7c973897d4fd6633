import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { AttackApplication } from './attack.application.js';
import { packTools } from './pack-tools.js';
import { loadPacks } from './load-packs.js';
import type { Pack } from './pack.js';

const MINIMAL: Pack = {
  name: 'door',
  world: { doors: [{ id: 'd-1', note: '⟦vec:note⟧' }] },
  vectors: { note: 'Pull.' },
  tools: [
    {
      id: 'doors__read',
      description: 'Reads.',
      input: { type: 'object', properties: {} },
      effect: 'read_only',
      does: { kind: 'find', table: 'doors' },
    },
  ],
  userTasks: [
    {
      id: 'look',
      prompt: 'Look.',
      calls: [{ as: 'doors', tool: 'doors__read', args: {} }],
      sees: ['note'],
    },
  ],
  injections: [{ id: 'again', goal: 'Look again.', calls: [{ tool: 'doors__read', args: {} }] }],
};

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'packs-'));
});
afterEach(() => {
  rmSync(folder, { recursive: true });
});

/** Writes a file and says what loading it says, with the folder left out. */
function problemWith(content: unknown): string {
  writeFileSync(
    join(folder, 'door.json'),
    typeof content === 'string' ? content : JSON.stringify(content),
  );
  try {
    loadPacks(folder);
    return 'none';
  } catch (error) {
    return String(error).replaceAll(`${folder}/`, '');
  }
}

describe('a folder of packs', () => {
  it('is read in the order of the names', () => {
    for (const name of ['b', 'a'])
      writeFileSync(join(folder, `${name}.json`), JSON.stringify({ ...MINIMAL, name }));
    writeFileSync(join(folder, 'notes.txt'), 'no pack');
    expect(loadPacks(folder).map(({ name }) => name)).toEqual(['a', 'b']);
  });

  it('is a mistake without packs', () => {
    expect(() => loadPacks(folder)).toThrow('holds no .json file');
  });

  it('tells the problems of every file at once', () => {
    writeFileSync(join(folder, 'a.json'), '{');
    expect(problemWith({ ...MINIMAL, name: '' })).toMatch(
      /a\.json: is no JSON[\s\S]*door\.json#\/name: /,
    );
  });
});

describe('a file that is no pack is told by file and pointer', () => {
  const [task] = MINIMAL.userTasks;
  const [look] = MINIMAL.tools;

  it.each<[string, unknown, string]>([
    ['no JSON', 'not json', 'door.json: is no JSON: '],
    ['an unknown field', { ...MINIMAL, extra: 1 }, 'door.json#: Unrecognized key: "extra"'],
    [
      'an unknown effect',
      { ...MINIMAL, tools: [{ ...look, effect: 'harmless' }] },
      'door.json#/tools/0/effect: ',
    ],
    [
      'an unknown behaviour',
      { ...MINIMAL, tools: [{ ...look, does: { kind: 'burn', table: 'doors' } }] },
      'door.json#/tools/0/does/kind: ',
    ],
    [
      'a wrong label',
      { ...MINIMAL, tools: [{ ...look, labels: { reads: 'secret' } }] },
      'door.json#/tools/0/labels/reads: ',
    ],
    ['no tools', { ...MINIMAL, tools: [] }, 'door.json#/tools: '],
    [
      'a table that is not there',
      { ...MINIMAL, tools: [{ ...look, does: { kind: 'find', table: 'dors' } }] },
      'door.json#/tools/0/does/table: there is no table "dors". Known: doors.',
    ],
    [
      'a tool that is not there',
      { ...MINIMAL, userTasks: [{ ...task, calls: [{ tool: 'doors__open', args: {} }] }] },
      'door.json#/userTasks/0/calls/0/tool: there is no tool "doors__open". Known: doors__read.',
    ],
    [
      'a vector that is not filled',
      { ...MINIMAL, vectors: {} },
      'door.json#/world/doors/0: there is no vector "note". Known: none.',
    ],
    [
      'a result that comes later',
      {
        ...MINIMAL,
        userTasks: [
          { ...task, calls: [{ as: 'a', tool: 'doors__read', args: { id: '{{a/0/id}}' } }] },
        ],
      },
      'door.json#/userTasks/0/calls/0/args: there is no earlier result "a". Known: prompt.',
    ],
    [
      'a task that is not there',
      { ...MINIMAL, injections: [{ ...MINIMAL.injections[0], tasks: ['lok'] }] },
      'door.json#/injections/0/tasks/0: there is no user task "lok". Known: look.',
    ],
    [
      'an id twice',
      { ...MINIMAL, tools: [look, look] },
      'door.json#/tools/1/id: "doors__read" is there twice.',
    ],
  ])('%s', (_, content, problem) => {
    expect(problemWith(content)).toContain(problem);
  });

  it('tools that no application would start with, by pack', async () => {
    const pack = {
      ...MINIMAL,
      tools: [
        {
          ...look,
          input: { type: 'object' as const, properties: { tenant: { type: 'string' as const } } },
        },
      ],
    };
    await expect(AttackApplication.start(packTools(pack), { allow: ['*'] })).rejects.toThrow(
      /pack door do not start[\s\S]*"tenant"/,
    );
  });

  it('a file that is a pack is loaded beside it', () => {
    expect(problemWith(MINIMAL)).toBe('none');
  });
});
