import { describe, expect, it } from '@jest/globals';
import { Expose } from 'class-transformer';
import {
  LlmTool,
  type Policy,
  type Tool,
  ToolLoopModule,
  ToolParam,
  ToolProvider,
  ToolSource,
} from '@toolloop/core';
import { findingsOf, start, RecordingLogger } from '../tools/application.js';
import { toolOf } from '../tools/tools.js';

const fine = { description: 'Does it.', effect: 'read_only', reveal: 'all' } as const;

@ToolProvider({ namespace: 'crm' })
class CrmTools {
  @LlmTool(fine) searchCustomers(): void {}
}

@ToolProvider({ namespace: 'crm' })
class NamedTools {
  @LlmTool(fine) findByName(@ToolParam('name', { description: 'Whose' }) name: string): string {
    return name;
  }
}

@ToolProvider()
class Customer {
  @Expose() id = '1';
  @LlmTool(fine) getSpend(): number {
    return 1;
  }
}

class Remote extends ToolSource {
  readonly origin = { source: 'remote', trusted: false };

  override tools(): readonly Tool[] {
    return [toolOf({ id: 'remote__run' })];
  }
}

const declared = {
  providers: [CrmTools],
  ports: [Remote],
  imports: [ToolLoopModule.forFeature({ entities: [Customer] })],
};
const withPolicy = (policy: Policy) => ({ ...declared, options: { policy } });

describe('invariant 3: a policy at bootstrap', () => {
  it.each<[string, string]>([
    ['crm__serchCustomers', 'Did you mean "crm__searchCustomers"?'],
    ['crn__*', 'Did you mean "crm__*"?'],
    ['customer_*_getSpent', 'Did you mean "customer_*_getSpend"?'],
    ['customer_c1_getSpend', 'Did you mean "customer_*_getSpend"?'],
    ['searchCustomers', 'Did you mean "crm__searchCustomers"?'],
  ])('invariant 3: is refused when it names %s', async (wrong, remedy) => {
    const finding = {
      at: 'ToolLoopModule policy',
      problem: `The policy names "${wrong}", and no tool has such an id.`,
      remedy,
    };
    expect(await findingsOf(withPolicy({ allow: ['crm__*', wrong] }))).toEqual([finding]);
    expect(await findingsOf(withPolicy({ allow: [], deny: [wrong] }))).toEqual([finding]);
  });

  it.each<[string, unknown, string, string]>([
    [
      'an unknown field',
      { allow: [], denny: [] },
      'ToolLoopModule policy/denny',
      'did you mean "deny"?',
    ],
    [
      'a field within approval',
      { allow: [], requireApproval: [{ effect: [] }] },
      'ToolLoopModule policy/requireApproval/0/effect',
      '"effects"?',
    ],
    [
      'a wrong effect',
      { allow: [], effects: ['readonly'] },
      'ToolLoopModule policy/effects/0',
      'must be one of: read_only, state_change',
    ],
    ['nothing to allow', { deny: [] }, 'ToolLoopModule policy/allow', 'is required'],
    ['a text for a list', { allow: '*' }, 'ToolLoopModule policy/allow', 'must be an array'],
    ['an empty pattern', { allow: [''] }, 'ToolLoopModule policy/allow/0', 'must not be empty'],
    [
      'a function',
      { allow: [], when: () => true },
      'ToolLoopModule policy/when',
      'unknown field "when"',
    ],
    ['no object', 'allow-all', 'ToolLoopModule policy', 'must be an object'],
  ])('invariant 3: is refused with %s', async (_, policy, at, problem) => {
    expect(await findingsOf(withPolicy(policy as Policy))).toEqual([
      {
        at,
        problem: expect.stringContaining(problem),
        remedy: 'See the type Policy for the fields and their values.',
      },
    ]);
  });

  it('invariant 3: is refused when a glob allows only tools that a glob cannot allow', async () => {
    expect(await findingsOf(withPolicy({ allow: ['crm__*', 'remote__*'] }))).toEqual([
      {
        at: 'ToolLoopModule policy',
        problem:
          'The policy allows "remote__*", which matches only tools of untrusted sources, and no glob can allow those.',
        remedy: 'Name each exactly: "remote__run".',
      },
    ]);
  });

  it('invariant 3: is refused when a rule is about an argument that no tool has', async () => {
    const rule = {
      tools: ['crm__findByName'],
      arguments: { properties: { nmae: { const: 'x' } } },
    };
    const budget = { tools: ['crm__findByName'], sum: { argument: '/nam', most: 1 } };
    const named = {
      ...withPolicy({ allow: [], requireApproval: [rule], runBudgets: [budget] }),
      providers: [CrmTools, NamedTools],
    };
    expect(await findingsOf(named)).toEqual([
      {
        at: 'ToolLoopModule policy/requireApproval/0/arguments',
        problem: 'None of the tools of this rule has an argument "nmae".',
        remedy: 'Did you mean "name"?',
      },
      {
        at: 'ToolLoopModule policy/runBudgets/0',
        problem: 'None of the tools of this rule has an argument "nam".',
        remedy: 'Did you mean "name"?',
      },
    ]);
  });

  it('invariant 3: is refused when a budget limits nothing', async () => {
    const policy: Policy = {
      allow: [],
      runBudgets: [{ tools: ['crm__*'], beyond: 'ask' }],
      callBudgets: [{}],
    };
    expect((await findingsOf(withPolicy(policy))).map(({ at, problem }) => [at, problem])).toEqual([
      ['ToolLoopModule policy/runBudgets/0', 'The budget limits nothing.'],
      ['ToolLoopModule policy/callBudgets/0', 'The budget limits nothing.'],
    ]);
  });

  it.each([
    ['desk__fetch_customer', 'Did you mean "desk__get_customer" or "desk__delete_customer"?'],
    ['desk__fetch_custom*', 'Did you mean "desk__get_customer" or "desk__delete_customer"?'],
    ['shelf_*_take_book', 'Did you mean "shelf_*_see_book" or "shelf_*_tear_book"?'],
  ])('invariant 3: is refused for %s, and reads are offered first', async (wrong, remedy) => {
    const writes = { ...fine, effect: 'state_change' } as const;
    @ToolProvider({ namespace: 'desk' })
    class DeskTools {
      @LlmTool({ ...writes, name: 'delete_customer' }) remove(): void {}
      @LlmTool({ ...fine, name: 'get_customer' }) get(): void {}
    }
    @ToolProvider({ prefix: 'shelf' })
    class Shelf {
      @Expose() id = '1';
      @LlmTool({ ...writes, name: 'tear_book' }) tear(): void {}
      @LlmTool({ ...fine, name: 'see_book' }) see(): void {}
    }
    const imports = [
      ToolLoopModule.forFeature({ entities: [Shelf], loops: { support: { tools: [wrong] } } }),
    ];
    const findings = await findingsOf({
      providers: [DeskTools],
      imports,
      options: { policy: { allow: [wrong] } },
    });
    expect(findings.map((finding) => finding.remedy)).toEqual([remedy, remedy]);
  });

  it('invariant 3: all findings of it at once', async () => {
    const findings = await findingsOf(withPolicy({ allow: ['crm__x'], deny: ['weather'] }));
    expect(findings.map(({ problem }) => problem)).toEqual([
      'The policy names "crm__x", and no tool has such an id.',
      'The policy names "weather", and no tool has such an id.',
    ]);
  });

  it('invariant 3: all findings of it at once, where its form is wrong as well', async () => {
    const wrong = {
      allow: ['crm__serchCustomers', 3],
      denny: ['crm__*'],
      roles: { support: { alow: ['x'], deny: ['crn__*'] }, boss: 'all' },
      requireApproval: ['always', { tools: ['weather'], effect: ['read_only'] }],
      runBudgets: [
        { tools: ['crm__x'], sum: { argument: '/amount' } },
        { tools: ['crm__*'], cals: 3 },
      ],
      connections: [{ tools: ['crm__y'] }],
      when: () => true,
    };
    const findings = await findingsOf(withPolicy(wrong as never));
    expect(
      findings.map(({ at, problem }) => `${at.replace('ToolLoopModule ', '')}: ${problem}`),
    ).toEqual([
      'policy/denny: unknown field "denny"; did you mean "deny"?',
      expect.stringContaining('policy/when: unknown field "when"'),
      'policy/allow/1: must be a string',
      'policy/roles/support/alow: unknown field "alow"; did you mean "allow"?',
      'policy/roles/boss: must be an object',
      'policy/requireApproval/0: must be an object',
      'policy/requireApproval/1/effect: unknown field "effect"; did you mean "effects"?',
      'policy/runBudgets/0/sum/most: is required',
      'policy/runBudgets/1/cals: unknown field "cals"; did you mean "calls"?',
      'policy/connections/0/connections: is required',
      'policy: The policy names "crm__serchCustomers", and no tool has such an id.',
      'policy: The policy names "crn__*", and no tool has such an id.',
      'policy: The policy names "weather", and no tool has such an id.',
      'policy: The policy names "crm__x", and no tool has such an id.',
      'policy: The policy names "crm__y", and no tool has such an id.',
    ]);
  });

  it('invariant 3: is refused for its ids, though it allows nothing', async () => {
    expect(
      (await findingsOf(withPolicy({ deny: ['crn__*'] } as never))).map(({ problem }) => problem),
    ).toEqual(['is required', 'The policy names "crn__*", and no tool has such an id.']);
  });

  it.each<Policy>([
    { allow: ['*'] },
    { allow: [] },
    { allow: ['crm__searchCustomers', 'customer_*_getSpend', 'remote__run'], deny: ['remote__*'] },
    { allow: ['customer_*_*'], effects: ['read_only'], requireApproval: [] },
  ])('invariant 3: starts the application with %j', async (policy) => {
    await expect(start(withPolicy(policy))).resolves.toBeDefined();
  });
});

describe('an application without a policy', () => {
  it('starts, and says that nothing can be called', async () => {
    const logger = new RecordingLogger();
    await start({ ...declared, options: { policy: undefined }, logger });
    expect(logger.warnings().map(({ message }) => message)).toEqual([
      'No policy: no tool is listed and none can be called. Give one: ToolLoopModule.forRoot({ policy: { allow: [...] } }).',
    ]);
  });
});
