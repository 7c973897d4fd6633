import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ScriptedModel, text } from '@toolloop/testing';
import { openMailDesk, readsMail, sendsMail } from '../../core/test/fixtures/mail-desk.js';
import { ask, closeApps, type Served, serveApp } from '../../http/test/served-app.js';
import { type Counterpart, counterpartOf } from '../src/counterpart.js';
import { decided, type DecisionOptions, inboxOf, placed } from '../src/looks.js';
import { failureOf } from '../src/output.js';
import { toolloop } from './command.js';

const { tools, sent } = openMailDesk();
const addressees = (): string[] => sent.splice(0).map(({ to }) => to);
const done = text('Done.');
const policy = {
  version: 'v1',
  allow: ['mail__*'],
  endorsements: [
    { tools: ['mail__send'], arguments: ['to'], sources: ['mail__read'], always: true },
  ],
};
let served: Served;

beforeAll(async () => {
  const script = [
    [readsMail, sendsMail('a@acme.example', 'b@acme.example'), done],
    [readsMail, sendsMail('c@acme.example'), sendsMail('c@acme.example', 'd@acme.example'), done],
    [
      readsMail,
      sendsMail('ann@acme.example'),
      done,
      readsMail,
      sendsMail('ann@acme.example'),
      done,
    ],
  ];
  served = await serveApp({ model: new ScriptedModel(script.flat()), loop: { tools, policy } });
});

afterAll(closeApps);

/** The application over HTTP, with a person's token. */
async function as(person: string): Promise<Counterpart> {
  process.env['TOOLLOOP_TOKEN'] = person;
  const counterpart = await counterpartOf({ url: served.url });
  delete process.env['TOOLLOOP_TOKEN'];
  return counterpart;
}

async function asked(
  person: string,
): Promise<{ readonly ids: readonly string[]; readonly runId: string; readonly shown: string }> {
  await (await ask(served, person, { message: 'Go on.' })).text();
  const { value, text: shown } = await inboxOf(await as(person));
  const waiting = value as readonly {
    readonly id: string;
    readonly request: { readonly runId: string };
  }[];
  return { ids: waiting.map(({ id }) => id), runId: waiting[0]?.request.runId ?? '', shown };
}

async function decide(
  person: string,
  ids: readonly string[],
  options: DecisionOptions = {},
): Promise<string> {
  const [id = '', ...others] = ids;
  return decided(await as(person), [id, ...others], 'approve', options).then(
    ({ text: said }) => said,
    failureOf,
  );
}

async function resumed(person: string, runId: string): Promise<unknown> {
  return (await ask(served, person, {}, `/runs/${runId}/resume/answer`)).json();
}

describe('toolloop inbox', () => {
  it('shows the calls of one kind, and takes one decision of all of them', async () => {
    const { ids, runId, shown } = await asked('alice');
    expect(shown).toContain(`one of 2 of a kind: ${ids.join(' ')}`);
    expect(await decide('bob', ids)).toContain('Nothing in the inbox has the id');
    expect(await decide('alice', ids, { trust: ['to'] })).toContain(
      'A decision about several calls trusts nothing.',
    );
    expect(await decide('alice', ids)).toBe(`Approved. The run is ${runId}.`);
    expect(await resumed('alice', runId)).toMatchObject({ finishReason: 'stop' });
    expect(addressees()).toEqual(['a@acme.example', 'b@acme.example']);
  });

  it('shows what may be trusted, and trusts it for the rest of the run', async () => {
    const { ids, runId, shown } = await asked('carl');
    expect(shown).toContain('may be trusted for the rest of the run: to, mail__read (--trust)');
    expect(await decide('carl', ids, { trust: ['body'] })).toContain(
      'The policy lets no one trust that',
    );
    expect(await decide('carl', ids, { trust: ['mail__read'] })).toContain('Approved.');
    expect(await resumed('carl', runId)).toMatchObject({ finishReason: 'stop' });
    expect(addressees()).toEqual(['c@acme.example', 'c@acme.example', 'd@acme.example']);
  });

  it('trusts a value for good where an operator says so, and why', async () => {
    const { ids, runId, shown } = await asked('ops');
    expect(shown).toContain('an operator may trust for good: to (--always)');
    expect(await decide('ops', ids, { always: 'to' })).toContain('--always needs a --reason');
    const args = [
      'inbox',
      'approve',
      ...ids,
      '--always',
      'to',
      '--reason',
      'Our accountant.',
      '--url',
      served.url,
    ];
    expect(await toolloop(args, { env: { TOOLLOOP_TOKEN: 'ops' } })).toMatchObject({
      code: 0,
      stdout: `Approved. The run is ${runId}.\n`,
    });
    expect(await resumed('ops', runId)).toMatchObject({ finishReason: 'stop' });
    expect((await asked('alice')).shown).toBe('Nothing waits.');
    expect(addressees()).toEqual(['ann@acme.example', 'ann@acme.example']);
  });
});

it('a place in the console holds an id with half a character', () => {
  expect(placed('runs', 'half \ud800/..')).toBe('runs/half%20%EF%BF%BD%2F..');
});
