import { describe, expect, it } from '@jest/globals';
import { Test } from '@nestjs/testing';
import { type JsonObject, type JsonValue, ToolLoopModule, ToolLoopService } from '@toolloop/core';
import type { SessionRequest } from '@toolloop/core/contracts';
import { policyAt, type ReplayedLevel } from './levels.js';
import { loadPacks, OWN_PACKS } from './load-packs.js';
import type { Pack, PlannedCall } from './pack.js';
import { packTools } from './pack-tools.js';
import { ScriptedModel } from '@toolloop/testing';
import { RunWorld } from './run.world.js';

const AGENT: Partial<SessionRequest> = { scope: 'mcp', readsElsewhere: true };
const LEVELS: readonly ReplayedLevel[] = ['taint', 'values'];

/**
 * The calls of the attackers of a pack that change something, as an agent makes them that has read
 * the attack elsewhere: nothing of it was read here.
 */
function attackCallsOf({ tools, injections }: Pack): readonly PlannedCall[] {
  const changing = new Set(
    tools.filter(({ effect }) => effect !== 'read_only').map(({ id }) => id),
  );
  return injections.flatMap(({ calls }) => calls).filter(({ tool }) => changing.has(tool));
}

/** The statuses of the calls of attackers, each the first call of its session. */
async function statusesOf(
  pack: Pack,
  level: ReplayedLevel,
  terms: Partial<SessionRequest>,
): Promise<readonly string[]> {
  const module = await Test.createTestingModule({
    imports: [
      ToolLoopModule.forRoot({
        model: new ScriptedModel([]),
        policy: policyAt(level),
        tools: packTools(pack).tools,
      }),
    ],
  }).compile();
  const app = await module.init();
  const statuses: string[] = [];
  for (const [index, { tool, args }] of attackCallsOf(pack).entries()) {
    const request = {
      actor: { id: `agent-${index}` },
      tenant: 'northwind',
      context: { world: new RunWorld(pack) },
      ...terms,
    };
    const session = await app.get(ToolLoopService).session(request);
    const { record } = await session.call(tool, saidIn(args));
    statuses.push(record.error?.code === 'invalid_args' ? 'invalid' : record.status);
    await session.close();
  }
  await app.close();
  return statuses;
}

/** The arguments with a text in the place of what an attacker would have read. */
function saidIn(args: Readonly<Record<string, JsonValue>>): JsonObject {
  return Object.fromEntries(
    Object.entries(args).map(([name, value]) => [
      name,
      typeof value === 'string' && value.includes('{{') ? 'read elsewhere' : value,
    ]),
  );
}

describe.each(loadPacks(OWN_PACKS).map((pack) => [pack.name, pack] as const))(
  'an agent outside that has read an attack of the pack %s elsewhere',
  (_, pack) => {
    it.each(LEVELS)('changes nothing unasked with its first call at %s', async (level) => {
      const statuses = await statusesOf(pack, level, AGENT);
      expect(statuses.filter((status) => status === 'waiting').length).toBeGreaterThan(0);
      expect(statuses.filter((status) => status !== 'waiting' && status !== 'invalid')).toEqual([]);
    });

    it('would, if what it has read elsewhere were taken for nothing', async () => {
      expect(await statusesOf(pack, 'taint', { scope: 'desk' })).toContain('succeeded');
    });
  },
);
