import { describe, expect, it } from '@jest/globals';
import { ConfigurationError } from '@toolloop/core';
import { fallback, priced, rateLimited, retried } from '@toolloop/core/models';
import { assumeRoles, phases, toolSearch, unlock } from '@toolloop/core/strategies';
import { ScriptedModel } from '@toolloop/testing';

/** As a JavaScript user would write it. */
const wrong = (option: unknown): never => option as never;
const model = new ScriptedModel([]);

describe('a model around models', () => {
  it.each<[string, () => unknown, string]>([
    [
      'rateLimited with a misspelt limit',
      () => rateLimited(model, wrong({ requestPerMinute: 5 })),
      '"requestsPerMinute"',
    ],
    [
      'rateLimited with a limit that is a text',
      () => rateLimited(model, wrong({ concurrent: '5' })),
      'The option "concurrent" is "5".',
    ],
    [
      'rateLimited with NaN',
      () => rateLimited(model, { queue: NaN }),
      'The option "queue" is NaN.',
    ],
    [
      'rateLimited without limits',
      () => rateLimited(model, wrong(undefined)),
      'Its options are undefined.',
    ],
    [
      'rateLimited without a model',
      () => rateLimited(wrong(undefined), {}),
      'Its model is undefined',
    ],
    [
      'retried with a misspelt option',
      () => retried(model, wrong({ attempt: 5 })),
      'Did you mean "attempts"?',
    ],
    [
      'retried with NaN attempts',
      () => retried(model, { attempts: NaN }),
      'The option "attempts" is NaN.',
    ],
    [
      'retried with endless attempts',
      () => retried(model, { attempts: Infinity }),
      'The option "attempts" is Infinity.',
    ],
    [
      'retried with no attempt',
      () => retried(model, { attempts: 0 }),
      'The option "attempts" is 0.',
    ],
    [
      'retried with a wait that no timer knows',
      () => retried(model, { longestWaitMs: Infinity }),
      'milliseconds, from 0 to 2147483647',
    ],
    [
      'retried around nothing',
      () => retried(wrong({ stream: 1 })),
      'Its model is an object, not a LanguageModel.',
    ],
    [
      'fallback with a misspelt option',
      () => fallback([model], wrong({ wen: () => true })),
      'Did you mean "when"?',
    ],
    [
      'fallback with what decides nothing',
      () => fallback([model], wrong({ when: true })),
      'The option "when" is true.',
    ],
    [
      'fallback with a model that is missing',
      () => fallback([model, wrong(undefined)]),
      'Its model is undefined',
    ],
    [
      'fallback without a list',
      () => fallback(wrong(model), wrong(model)),
      'Write fallback([one, other]).',
    ],
    ['priced around nothing', () => priced(wrong('gpt-5'), {}), 'Its model is "gpt-5"'],
  ])('%s is refused', (_, make, problem) => {
    expect(make).toThrow(ConfigurationError);
    expect(make).toThrow(problem);
  });

  it('leaves out what is undefined', () => {
    expect(() =>
      fallback(
        [retried(rateLimited(model, wrong({ queue: undefined })), {})],
        wrong({ when: undefined }),
      ),
    ).not.toThrow();
  });
});

describe('a strategy', () => {
  const to = { after: 'probe__read', roles: ['staff'] };
  it.each<[string, () => unknown, string]>([
    [
      'unlock with a misspelt trigger',
      () => unlock(wrong({ afer: 'probe__read', tools: ['probe__write'] })),
      'Did you mean "after"?',
    ],
    [
      'unlock with tools that are no list',
      () => unlock(wrong({ after: 'a', tools: 'probe__*' })),
      'The option "tools" is "probe__*".',
    ],
    [
      'unlock with a trigger that is none',
      () => unlock(wrong({ when: true, tools: ['a'] })),
      'The option "when" is true.',
    ],
    ['unlock without options', () => unlock(wrong(undefined)), 'Its options are undefined.'],
    [
      'phases with a misspelt option',
      () => phases(wrong({ start: 'a', states: { a: { tools: [] } }, nam: 'x' })),
      '"name"',
    ],
    ['phases without states', () => phases(wrong({ start: 'a' })), 'It has no "states".'],
    [
      'phases without a start',
      () => phases(wrong({ states: { a: { tools: [] } } })),
      'It has no "start".',
    ],
    [
      'a phase without tools',
      () => phases(wrong({ start: 'a', states: { a: {} } })),
      'phase "a": It has no "tools".',
    ],
    [
      'a phase that is nothing',
      () => phases(wrong({ start: 'a', states: { a: null } })),
      'Its options are null.',
    ],
    [
      'a way with a misspelt trigger',
      () =>
        phases(
          wrong({
            start: 'a',
            states: { a: { tools: [], to: [{ after: 'x', when: () => true, phase: 'a' }] } },
          }),
        ),
      'There is no option "after".',
    ],
    [
      'toolSearch with a misspelt option',
      () => toolSearch(wrong({ max: 5 })),
      'There is no option "max".',
    ],
    [
      'toolSearch with a text',
      () => toolSearch(wrong({ always: 'probe__read' })),
      'The option "always" is "probe__read".',
    ],
    [
      'assumeRoles with a text for roles',
      () => assumeRoles(wrong({ start: 'staff' })),
      'The option "start" is "staff".',
    ],
    ['assumeRoles without a start', () => assumeRoles(wrong({ to: [to] })), 'It has no "start".'],
    [
      'assumeRoles with a change that gives nothing',
      () => assumeRoles({ start: [], to: [wrong({ after: 'a' })] }),
      'It has no "roles".',
    ],
    [
      'assumeRoles with a misspelt change',
      () => assumeRoles({ start: [], to: [wrong({ ...to, fond: () => true })] }),
      'mean "found"',
    ],
  ])('%s is refused', (_, make, problem) => {
    expect(make).toThrow(ConfigurationError);
    expect(make).toThrow(problem);
  });
});
