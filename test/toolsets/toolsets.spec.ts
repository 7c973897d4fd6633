import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import {
  type Limits,
  LlmTool,
  type LoopEvent,
  policies,
  ToolLoopModule,
  ToolLoopService,
  ToolParam,
  ToolProvider,
  type ToolSpec,
} from '@toolloop/core';
import type { EntitySurface } from '@toolloop/core/strategies';
import { ScriptedModel, call, calls, collect, eventsOf, text } from '@toolloop/testing';
import { Expose } from 'class-transformer';
import { WIRES, encodedTools } from './encoded-tools.js';

@ToolProvider({ prefix: 'person', instanceIdProperty: ['team', 'number'] })
class Person {
  @Expose() readonly team: string;
  @Expose() readonly number: number;

  constructor(team: string, number: number) {
    this.team = team;
    this.number = number;
  }

  @LlmTool({ description: 'What the person does.', effect: 'read_only', reveal: 'all' })
  describe(): string {
    return `${this.team} ${this.number}`;
  }

  @LlmTool({ description: 'Moves the person.', effect: 'state_change', reveal: 'all' })
  move(
    @ToolParam('to', { description: 'Name of the team' }) to: string,
    @ToolParam('reason', { description: 'Why', required: false }) reason?: string,
  ): string {
    return to + (reason ?? '');
  }
}

@Injectable()
@ToolProvider({ namespace: 'people' })
class PeopleTools {
  @LlmTool({ description: 'Finds people.', effect: 'read_only', output: [Person] })
  find(
    @ToolParam('team', { description: 'Name of the team' }) team: string,
    @ToolParam('count', { description: 'How many' }) count: number,
  ): Person[] {
    return Array.from({ length: count }, (_, index) => new Person(team, index));
  }
}

interface Sent {
  readonly requests: readonly (readonly ToolSpec[])[];
  readonly events: readonly LoopEvent[];
}

const COUNTS = [1, 2, 1, 3, 2];

/** People come one result after the other; the model only looks for them. */
async function sentOn(surface: EntitySurface, limits: Partial<Limits>): Promise<Sent> {
  const finds = COUNTS.map((count, index) =>
    calls(call('people__find', { team: `t${index % 4}`, count })),
  );
  const model = new ScriptedModel([...finds, text('Done.')]);
  const module = await Test.createTestingModule({
    imports: [
      ToolLoopModule.forRoot({ model, policy: policies.allowAll }),
      ToolLoopModule.forFeature({ entities: [Person] }),
    ],
    providers: [PeopleTools],
  }).compile();
  await module.init();
  const handle = module
    .get(ToolLoopService)
    .open({ prompt: 'Go on.', actor: { id: 'a' }, tenant: 'acme', surface, limits });
  const events = await collect(handle.events$);
  await module.close();
  return { requests: model.requests.map(({ tools }) => tools), events };
}

/**
 * A missing file is a failure: only `UPDATE_GOLDEN=1` writes, and then the change is to be read.
 */
function goldenFor(name: string, actual: string): string {
  const path = join(process.cwd(), 'test/toolsets/golden', name);
  if (process.env['UPDATE_GOLDEN'] === '1') writeFileSync(path, actual);
  if (!existsSync(path))
    throw new Error(
      `There is no golden file ${name}. Write it with UPDATE_GOLDEN=1 and read what it says.`,
    );
  return readFileSync(path, 'utf8');
}

const SCENES: readonly [string, EntitySurface, Partial<Limits>][] = [
  ['named', 'named', {}],
  ['grouped', 'grouped', {}],
  ['dispatcher', 'dispatcher', {}],
  ['auto-that-switches', 'auto', { injectedTools: 8 }],
  ['named-with-evictions', 'named', { injectedInstances: 3 }],
  ['grouped-with-evictions', 'grouped', { injectedInstances: 3 }],
];

function namesIn(tools: readonly string[]): readonly (string | undefined)[] {
  return tools.map((one) => /"name":"([^"]+)"/.exec(one)?.[1]);
}

async function hashesOn(surface: EntitySurface): Promise<readonly (string | undefined)[]> {
  return eventsOf((await sentOn(surface, {})).events, 'usage').map(({ tools }) => tools?.hash);
}

describe.each(SCENES)('invariant 7: the tools of a run, %s,', (name, surface, limits) => {
  it.each(WIRES)(
    'keep their bytes and their order in every request over the wire of %s',
    async (wire) => {
      const { requests } = await sentOn(surface, limits);
      const bytes = [];
      for (const tools of requests) bytes.push(await encodedTools(wire, tools));
      for (const [index, later] of bytes.slice(1).entries()) {
        const before = bytes[index] ?? [];
        const kept = before.filter((one) => later.includes(one));
        // What is still there stands first, in its order; what is new stands behind it.
        expect(later.slice(0, kept.length)).toEqual(kept);
        const changed = namesIn(later).filter(
          (id) => namesIn(before).includes(id) && !namesIn(kept).includes(id),
        );
        expect(changed).toEqual([]);
        expect(name.startsWith('named-with') || kept.length === before.length).toBe(true);
      }
    },
  );

  it('are what the golden file says, and so is what an event tells of the prefix', async () => {
    const { requests, events } = await sentOn(surface, limits);
    const known = new Set<string>();
    const told = eventsOf(events, 'usage').map(({ tools }, index) => {
      const sent = requests[index] ?? [];
      const fresh = sent.filter(({ id }) => !known.has(id));
      for (const { id } of fresh) known.add(id);
      return {
        prefix: tools,
        ids: sent.map(({ id }) => id),
        new: fresh.map(({ id, description, inputSchema }) => ({ id, description, inputSchema })),
      };
    });
    const actual = `${JSON.stringify(told, null, 2)}\n`;
    expect(actual).toBe(goldenFor(`${name}.json`, actual));
  });

  it('are told to be unchanged up to where they are', async () => {
    const { requests, events } = await sentOn(surface, limits);
    for (const [index, { tools }] of eventsOf(events, 'usage').entries()) {
      const before = requests[index - 1] ?? [];
      const now = requests[index] ?? [];
      const firstChange = now.findIndex(
        (spec, place) => JSON.stringify(spec) !== JSON.stringify(before[place]),
      );
      expect(tools).toMatchObject({
        tools: now.length,
        unchanged: firstChange < 0 ? now.length : firstChange,
      });
    }
  });
});

it('two runs with the same tools tell the same hash, and none that differ do', async () => {
  const [one, again, other] = [
    await hashesOn('grouped'),
    await hashesOn('grouped'),
    await hashesOn('dispatcher'),
  ];
  expect(again).toEqual(one);
  expect(new Set(other).size).toBe(1);
  expect(new Set(one).size).toBe(2);
});
