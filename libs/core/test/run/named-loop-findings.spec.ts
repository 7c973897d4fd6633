import { describe, expect, it } from '@jest/globals';
import { Module } from '@nestjs/common';
import { type LoopProfile, ToolLoopModule, toolLoopToken } from '@toolloop/core';
import { SilentModel, findingsOf, start } from '../tools/application.js';
import { ProbeTools } from '../fixtures/probe.tools.js';
import { CrmTools } from '../fixtures/shop.js';

const providers = [CrmTools, ProbeTools];
const options = { models: { small: new SilentModel() } };

/** What is wrong with a profile, in one line each. */
async function problemsOf(...profiles: unknown[]): Promise<string[]> {
  const imports = profiles.map((profile) =>
    ToolLoopModule.forFeature({ loops: { support: profile as LoopProfile } }),
  );
  const findings = await findingsOf({ providers, imports, options });
  return findings.map(({ at, problem, remedy }) => `${at}: ${problem} ${remedy}`);
}

describe('a named loop that is wrong does not start', () => {
  it('reports everything at once', async () => {
    const problems = await problemsOf({
      model: 'smal',
      policy: { allow: ['crm__serachCustomers'] },
      limits: { step: 3, runMs: -1 },
      execution: { loging: false },
      tools: ['probe__reed'],
      exclude: ['rea*', SilentModel],
    });
    expect(problems).toEqual([
      'loop "support" limits: There is no limit "step". Did you mean "steps"?',
      'loop "support" limits: The limit "runMs" is -1. Give milliseconds, more than 0.',
      'loop "support" execution: There is no execution option "loging" here. Did you mean "logging"?',
      'loop "support": No model is named "smal". Name one of ToolLoopModule.forRoot({ models }). Known: small.',
      'loop "support" policy: The policy names "crm__serachCustomers", and no tool has such an id. Did you mean "crm__searchCustomers"?',
      expect.stringMatching(
        /^loop "support": No tool is named "probe__reed". Did you mean "probe__read"/,
      ),
      expect.stringMatching(/^loop "support": No tool is named "rea\*"\. /),
      'loop "support": There is no tool of the class SilentModel. Mark it @ToolProvider() and list it in the providers of a module, or name a module that has such providers itself.',
    ]);
  });

  it.each<[string, unknown, string]>([
    [
      'the name of no model',
      { model: 'constructor' },
      'loop "support": No model is named "constructor".',
    ],
    [
      'a model that is none',
      { model: {} },
      'loop "support": The option "model" is an object. Give a LanguageModel or the name of one.',
    ],
    ['a policy of another shape', { policy: { allowed: [] } }, 'loop "support" policy'],
    ['the name of no tool', { tools: ['nothing'] }, 'loop "support": No tool is named "nothing".'],
    [
      'an output that is no class',
      { output: 'Answer' },
      'loop "support": The option "output" is "Answer". Give a class',
    ],
    ['a tenant', { tenant: 'acme' }, 'loop "support": It sets "tenant", which only a run can set.'],
    [
      'an actor',
      { actor: { id: 'root' } },
      'loop "support": It sets "actor", which only a run can set.',
    ],
  ])('is refused for %s', async (_, profile, problem) => {
    expect((await problemsOf(profile))[0]).toContain(problem);
  });

  it('is refused when several features declare its name', async () => {
    expect(await problemsOf({}, {}, {})).toEqual([
      'loop "support": Several features declare a loop of this name. Give one of them another name, or declare it in one module only: it can be injected in all of them.',
    ]);
  });
});

it('one feature that several modules import is declared once', async () => {
  const feature = ToolLoopModule.forFeature({ loops: { support: {} } });
  @Module({ imports: [feature] })
  class One {}
  @Module({ imports: [feature] })
  class Other {}
  const app = await start({ providers, imports: [One, Other], options });
  expect(app.get(toolLoopToken('support'), { strict: false })).toBeDefined();
});

it('a name that every object has is a name like any other', async () => {
  const names = ['constructor', 'toString', 'two words'];
  const loops = Object.fromEntries(names.map((name): [string, LoopProfile] => [name, {}]));
  const app = await start({ providers, imports: [ToolLoopModule.forFeature({ loops })], options });
  expect(
    new Set(names.map((name) => app.get<unknown>(toolLoopToken(name), { strict: false }))).size,
  ).toBe(names.length);
});
