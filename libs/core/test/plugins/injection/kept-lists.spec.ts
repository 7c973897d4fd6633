import { describe, expect, it } from '@jest/globals';
import { type Decision, type Policy, tool, type ToolSelector, type ToolSpec } from '@toolloop/core';
import { type PolicyActor, PolicyEngine, type PolicySubject } from '@toolloop/core/policy';
import { assumeRoles } from '@toolloop/core/strategies';
import { call, calls, collect, eventsOf, ScriptedModel, text } from '@toolloop/testing';
import * as fc from 'fast-check';
import { cases } from '../../../../../test/cases.js';
import { fine } from '../sources/remote.js';
import {
  anyPolicy,
  apply,
  asked,
  change,
  DESK,
  desk,
  expected,
  idsOf,
  type InForce,
  listing,
  put,
  ROLES,
  ROOT,
  type Wanted,
  who,
} from './changing-desk.js';

/** The tools that have no `when`: a list without the others is the same array. */
const UNCONDITIONAL = { tools: ['crm__*', 'desk__read', 'desk__write'] };

async function plainDesk(declared: Parameters<typeof desk>[0]) {
  const app = await desk(declared);
  return {
    ...app,
    list: async (whom: Parameters<typeof app.list>[0]) => app.list(whom, UNCONDITIONAL),
    ids: async (whom: Parameters<typeof app.list>[0]) => app.ids(whom, UNCONDITIONAL),
  };
}

const began = (application: Policy): InForce => ({
  application: [application],
  tenants: new Map(),
  stops: [],
});

describe('the kept lists of tools', () => {
  it('are those that are decided anew for each tool, whatever policies, actors, selections, stops and sources there are, in whatever order', async () => {
    const steps = fc.array(
      fc.oneof({ weight: 3, arbitrary: listing }, { weight: 2, arbitrary: change }),
      { minLength: 1, maxLength: 25 },
    );
    const property = fc.asyncProperty(anyPolicy, steps, async (first, all) => {
      const app = await desk({ options: { tools: DESK, policy: first, operators: () => 'all' } });
      const state = began(first);
      const listed: Wanted[] = [];
      const compare = async (wanted: Wanted) => {
        const { selection: chosen, policy: own } = wanted;
        expect(await app.ids(wanted, { ...chosen, ...(own && { policy: own }) })).toEqual(
          expected(app, state, wanted),
        );
      };
      for (const step of all) {
        if (step.do === 'list') listed.push(step.wanted);
        else await apply(app, state, step);
        // Every list that there was once must be right after each change.
        for (const wanted of listed) await compare(wanted);
      }
      await app.module.close();
    });
    await fc.assert(property, { numRuns: cases(200) });
  });

  it('are followed by a run that is under way: after a change it has what it would begin with by then', async () => {
    const property = fc.asyncProperty(
      anyPolicy,
      who,
      fc.option(fc.subarray(ROLES)),
      fc.array(change, { minLength: 1, maxLength: 5 }),
      async (first, one, assumed, all) => {
        const model = new ScriptedModel([
          ...all.map(() => calls(call('desk__read', {}))),
          text('Done.'),
        ]);
        const limits = { refusalsInARow: 100, identicalCalls: 100 };
        const app = await desk({
          options: { model, tools: DESK, policy: first, operators: () => 'all', limits },
        });
        const state = began(first);
        const wanted: Wanted = { ...one, selection: {} };
        const left = [...all];
        const offered: string[][] = [];
        const due: string[][] = [];
        await app.loop.run(
          asked(one, {
            ...(assumed && { injection: [assumeRoles({ start: assumed })] }),
            prepareStep: async ({ tools }) => {
              offered.push(idsOf(tools).toSorted());
              due.push(expected(app, state, wanted, assumed ?? undefined).toSorted());
              const next = left.shift();
              if (next) await apply(app, state, next);
              return {};
            },
          }),
        );
        expect(offered).toEqual(due);
        expect(offered).toHaveLength(all.length + 1);
        await app.module.close();
      },
    );
    await fc.assert(property, { numRuns: cases(200) });
  });

  it('are the same array for the people of a tenant of whom the policy reads the same, and others if it reads a name', async () => {
    const policy: Policy = {
      allow: ['*'],
      roles: { staff: { deny: ['desk__write'] } },
      tenants: { globex: { deny: ['crm__*'] } },
      flow: 'off',
    };
    const { list } = await plainDesk({ options: { tools: DESK, policy } });
    const bob = await list({ id: 'bob', roles: ['sales'] });
    expect(await list({ id: 'eve', roles: ['any', 'other'] })).toBe(bob);
    const elsewhere = await list({ id: 'bob', roles: ['sales'], tenant: 'initech' });
    expect(elsewhere).not.toBe(bob);
    expect(elsewhere).toEqual(bob);
    const atGlobex = await list({ id: 'bob', roles: ['sales'], tenant: 'globex' });
    expect([idsOf(bob).includes('crm__search'), idsOf(atGlobex).includes('crm__search')]).toEqual([
      true,
      false,
    ]);
    expect(await list({ id: 'bob', roles: ['staff'] })).not.toBe(bob);
    expect(await list({ id: 'bob', roles: ['staff', 'sales'] })).toBe(
      await list({ id: 'eve', roles: ['staff'] }),
    );
  });

  it('are of their own tenant where two tenants have an actor of the same name and the same roles', async () => {
    const app = await desk({
      options: { tools: DESK, policy: { allow: ['*'], flow: 'off' }, operators: () => 'all' },
    });
    const tenants = ['acme', 'globex'] as const;
    const denied = { acme: 'desk__write', globex: 'crm__search' };
    const stopped = { acme: 'desk__send', globex: 'crm__rename' };
    const lists = async () =>
      Promise.all(tenants.map((tenant) => app.ids({ tenant, roles: ['staff'] })));
    const missing = async (ids: Readonly<Record<string, string>>) => {
      const listed = await lists();
      return tenants.map((tenant) => listed.map((list) => !list.includes(ids[tenant] ?? '')));
    };
    const ofTheirs = [
      [true, false],
      [false, true],
    ];
    expect(await missing({ acme: 'desk__globex', globex: 'none' })).toEqual([
      [true, false],
      [true, true],
    ]);
    for (const tenant of tenants)
      await put(app, [{ allow: ['*'], deny: [denied[tenant]], flow: 'off' }], {
        actor: { id: 'ops' },
        tenant,
      });
    expect(await missing(denied)).toEqual(ofTheirs);
    await put(app, [{ allow: ['*'], flow: 'off' }], { actor: { id: 'ops' }, tenant: 'acme' });
    expect(await missing(denied)).toEqual([
      [false, false],
      [false, true],
    ]);
    for (const tenant of tenants)
      await app.policies.stop(
        { tool: stopped[tenant] },
        { actor: { id: 'ops' }, tenant },
        { reason: 'x' },
      );
    expect(await missing(stopped)).toEqual(ofTheirs);
  });

  it('are not shared by tenants without policies of their own where an operator has stopped something for one of them', async () => {
    const app = await desk({
      options: { tools: DESK, policy: { allow: ['*'], flow: 'off' }, operators: () => 'all' },
    });
    const [acme, globex] = [
      () => app.ids({ tenant: 'acme' }),
      () => app.ids({ tenant: 'initech' }),
    ];
    const { stopId } = await app.policies.stop(
      { tool: 'crm__search' },
      { actor: { id: 'ops' }, tenant: 'acme' },
      { reason: 'x' },
    );
    expect([
      (await acme()).includes('crm__search'),
      (await globex()).includes('crm__search'),
    ]).toEqual([false, true]);
    await app.policies.release(stopId, ROOT, { reason: 'x' });
    expect([
      (await acme()).includes('crm__search'),
      (await globex()).includes('crm__search'),
    ]).toEqual([true, true]);
  });

  it('are others for a run that begins without some of the roles of its actor', async () => {
    const policy: Policy = {
      allow: ['crm__search'],
      roles: { staff: { allow: ['desk__*'] }, trainee: { deny: ['desk__write'] } },
      flow: 'off',
    };
    const { loop } = await desk({
      options: {
        model: new ScriptedModel(Array.from({ length: 4 }, () => text('Done.'))),
        tools: DESK,
        policy,
      },
    });
    const begunAs = async (...start: readonly string[]) => {
      const { events$ } = loop.open(
        asked({ roles: ['staff', 'trainee'] }, { injection: [assumeRoles({ start })] }),
      );
      return eventsOf(await collect(events$), 'run-start').flatMap(({ tools }) => tools);
    };
    const all = await begunAs('staff', 'trainee');
    expect([all.includes('desk__read'), all.includes('desk__write')]).toEqual([true, false]);
    expect(await begunAs()).toEqual(['crm__search']);
    expect(await begunAs('staff')).toEqual(all); // what a role denies stays denied without it
    expect(await begunAs('staff', 'trainee')).toEqual(all);
  });

  it('are made anew once a policy was replaced between two runs', async () => {
    const { ids, engine } = await desk({
      options: { tools: DESK, policy: { allow: ['*'], flow: 'off' } },
    });
    expect(await ids({})).toContain('desk__write');
    engine.replace({ allow: ['desk__read'], flow: 'off' });
    expect(await ids({})).toEqual(['desk__read']);
    engine.replace({ allow: ['*'], flow: 'off' });
    expect(await ids({})).toContain('desk__write');
  });

  it('do not answer for a predicate, for a when, or for a selection that was changed since', async () => {
    const { ids } = await desk({ options: { tools: DESK, policy: { allow: ['*'], flow: 'off' } } });
    let wanted = 'desk__read';
    const chosen: ToolSelector[] = [({ id }: ToolSpec) => id === wanted];
    expect(await ids({}, { tools: chosen })).toEqual(['desk__read']);
    wanted = 'desk__write';
    expect(await ids({}, { tools: chosen })).toEqual(['desk__write']);
    const named: ToolSelector[] = ['desk__read'];
    expect(await ids({}, { tools: named })).toEqual(['desk__read']);
    named.push('crm__search');
    expect(await ids({}, { tools: named })).toEqual(['crm__search', 'desk__read']);
    const flagged = { tools: ['desk__flag', 'desk__ada'] };
    expect([
      await ids({ flag: true }, flagged),
      await ids({ flag: false }, flagged),
      await ids({ id: 'bob', flag: true }, flagged),
    ]).toEqual([['desk__ada', 'desk__flag'], ['desk__ada'], ['desk__flag']]);
  });

  it('do not answer for an engine of the application, unless it says by what of the actor it decides', async () => {
    let [isOpen, wasAsked] = [true, 0];
    class Own extends PolicyEngine {
      override decide({ actor }: PolicySubject): Decision {
        wasAsked += 1;
        return {
          kind: isOpen && actor.roles.length > 0 ? 'allow' : 'deny',
          rule: 'own',
          reason: 'Own.',
          policyVersion: '1',
        };
      }
    }
    class Telling extends Own {
      override revision = () => Number(isOpen);
      override listedBy = ({ roles }: PolicyActor) => (roles.length > 0 ? 'some' : 'none');
    }
    const staff = { roles: ['staff'] };
    for (const [useClass, isKept] of [
      [Own, false],
      [Telling, true],
    ] as const) {
      const { ids, list, policies } = await plainDesk({
        options: { tools: DESK, policy: [], operators: () => 'all' },
        ports: [{ provide: PolicyEngine, useClass }],
      });
      isOpen = true;
      const before = await list(staff);
      wasAsked = 0;
      const again = await list({ roles: ['lead'] });
      expect(again).toEqual(before);
      expect([again === before, wasAsked === 0]).toEqual([isKept, isKept]);
      expect(await ids({})).toEqual([]);
      isOpen = false;
      expect(await ids(staff)).toEqual([]);
      isOpen = true;
      await policies.stop({ tool: 'desk__read' }, ROOT, { reason: 'x' });
      expect(await ids(staff)).toEqual(idsOf(before).filter((id) => id !== 'desk__read'));
      expect(await ids({ ...staff, tenant: 'initech' })).toContain('desk__read');
    }
  });

  it('are bounded, and the least recently used are made again', async () => {
    const tools = Array.from({ length: 1000 }, (_, index) =>
      tool({ id: `desk__t${index}`, ...fine, reveal: 'all', execute: () => 'done' }),
    );
    const { list } = await desk({ options: { tools, policy: { allow: ['*'], flow: 'off' } } });
    const tenants = Array.from({ length: 199 }, (_, index) => `tenant_${index}`);
    const [first, kept] = [await list({ tenant: 'first' }), await list({ tenant: 'kept' })];
    for (const tenant of tenants) {
      await list({ tenant });
      expect(await list({ tenant: 'kept' })).toBe(kept);
    }
    const again = await list({ tenant: 'first' });
    expect(again).not.toBe(first);
    expect(again).toEqual(first);
  });

  it('give a run the message of a wrong name each time, and keep nothing of it', async () => {
    const { ids } = await desk({ options: { tools: DESK, policy: { allow: ['*'], flow: 'off' } } });
    for (let time = 0; time < 2; time += 1)
      await expect(ids({}, { tools: ['desk__raed'] })).rejects.toThrow('Did you mean "desk__read"');
    expect(await ids({}, { tools: ['desk__read'] })).toEqual(['desk__read']);
  });
});
