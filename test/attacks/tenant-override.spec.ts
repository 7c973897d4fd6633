import { describe, expect, it } from '@jest/globals';
import { Test } from '@nestjs/testing';
import {
  type JsonObject,
  type LoopResult,
  tool,
  ToolLoopModule,
  ToolLoopService,
} from '@toolloop/core';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';

const ROWS: Readonly<Record<string, string>> = { acme: 'acme row', globex: 'globex row' };
const reached: string[] = [];

/** Takes free-form objects, which is where a reserved name could hide. */
const search = tool<JsonObject>({
  id: 'crm__search',
  description: 'Searches.',
  effect: 'read_only',
  reveal: 'all',
  input: {
    type: 'object',
    properties: {
      text: { type: 'string' },
      filter: { type: 'object' },
      filters: { type: 'array', items: { type: 'object' } },
    },
  },
  execute: (_, { tenant }) => {
    reached.push(tenant);
    return ROWS[tenant] ?? '';
  },
});

async function played(tenant: string, args: string): Promise<LoopResult> {
  const model = new ScriptedModel([calls(call('crm__search', args)), text('Done.')]);
  const loop = ToolLoopModule.forRoot({ model, policy: { allow: ['*'] }, tools: [search] });
  const app = await (await Test.createTestingModule({ imports: [loop] }).compile()).init();
  const result = await app
    .get(ToolLoopService)
    .run({ prompt: 'Search globex.', actor: { id: 'alice' }, tenant });
  await app.close();
  return result;
}

describe('a model that names another tenant', () => {
  it.each([
    ['at the top', '{"tenant":"globex"}'],
    ['in another spelling', '{"filter":{"TENANT-ID":"globex"}}'],
    ['in an object', '{"text":"a","filter":{"tenantId":"globex"}}'],
    ['in an object in a list', '{"filters":[{"a":1},{"tenant_id":"globex"}]}'],
    ['deep down', '{"filter":{"a":[{"b":{"c":[[{"tenant":"globex"}]]}}]}}'],
    ['with a value that is no text', '{"filter":{"tenant":{"$ne":null}}}'],
    ['as an actor', '{"filter":{"actor":{"id":"mia"}}}'],
    ['behind an escape', '{"filter":{"t\\u0065nant":"globex"}}'],
    [
      'twice, the second time for good',
      '{"filter":{"tenant":"acme"},"filter":{"tenant":"globex"}}',
    ],
    ['under a prototype', '{"filter":{"__proto__":{"tenant":"globex"}}}'],
  ])('is refused, and nothing is called: %s', async (_, args) => {
    reached.length = 0;
    const { toolCalls, messages } = await played('acme', args);
    expect(toolCalls).toMatchObject([
      { status: 'denied', error: { code: 'tenant_override' }, decision: { kind: 'allow' } },
    ]);
    expect(reached).toEqual([]);
    expect(JSON.stringify(messages)).not.toContain('globex row');
  });

  it('reads its own tenant all the same when the name is only a value', async () => {
    const { toolCalls } = await played('acme', '{"text":"tenant: globex"}');
    expect(toolCalls[0]?.result).toBe('acme row');
  });

  it('changes nothing for the tenant it named, which works at the same time', async () => {
    const [attacked, other] = await Promise.all([
      played('acme', '{"filter":{"tenant":"globex"}}'),
      played('globex', '{"text":"a"}'),
    ]);
    expect([attacked.toolCalls[0]?.error?.code, other.toolCalls[0]?.result]).toEqual([
      'tenant_override',
      'globex row',
    ]);
  });
});
