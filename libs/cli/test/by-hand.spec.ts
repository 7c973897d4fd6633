import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ScriptedModel } from '@toolloop/testing';
import { closeApps, type Served, serveApp } from '../../http/test/served-app.js';
import { type Counterpart, counterpartOf } from '../src/counterpart.js';
import { calledBy, inboxOf, opened, toolsOf } from '../src/looks.js';
import { failureOf } from '../src/output.js';

let served: Served;

beforeAll(async () => {
  process.env['TOOLLOOP_TOKEN'] = 'alice';
  served = await serveApp({ model: new ScriptedModel([]), http: { path: 'assistant' } });
});

afterAll(async () => {
  delete process.env['TOOLLOOP_TOKEN'];
  await closeApps();
});

const at = (path: string): Promise<Counterpart> => counterpartOf({ url: `${served.url}${path}` });

describe('toolloop call', () => {
  it('says which argument breaks which rule of the schema, one a line', async () => {
    const { text, exitCode } = await calledBy(
      await at('/assistant'),
      'notes__read',
      '{"customer":"A"}',
    );
    const [first, ...problems] = text.split('\n');
    expect([first, exitCode]).toEqual(['The arguments do not fit the schema.', 1]);
    expect(problems).toEqual([
      expect.stringMatching(/^ {2}\S*id.*/),
      expect.stringContaining('unknown argument "customer"'),
    ]);
  });

  it('shows what a rule quotes of the arguments, and lets it not speak to the terminal', async () => {
    const { text } = await calledBy(
      await at('/assistant'),
      'notes__read',
      JSON.stringify({ id: 'n-1', 'a\u001b[2Jb\nc': 1 }),
    );
    expect(text).not.toContain('\u001b');
    expect(text.split('\n')).toHaveLength(2);
  });

  it('says to a person where the tool of an entity is called, and how tools are listed', async () => {
    const { text } = await calledBy(await at('/assistant'), 'order_o-1_refund', '{}');
    expect(text).toMatch(
      /^No tool is named "order_o-1_refund"\. "toolloop tools" lists .* The tool of an entity .* "toolloop chat"\.$/,
    );
    expect(text).not.toContain('you were given');
  });
});

describe('a token that no header can carry', () => {
  it('is refused, and not told to the terminal, as the platform does', async () => {
    process.env['TOOLLOOP_TOKEN'] = 'secret\nof-alice';
    const told = await counterpartOf({ url: served.url }).then(toolsOf).catch(failureOf);
    process.env['TOOLLOOP_TOKEN'] = 'alice';
    expect([told, await counterpartOf({ url: served.url }).then(() => 'taken')]).toEqual([
      'The token in TOOLLOOP_TOKEN has a character that no header can carry, such as the end of a line.',
      'taken',
    ]);
  });
});

describe('the path of the console', () => {
  it.each([
    'http://localhost:3000/console',
    'localhost:3000/console',
    'console#/inbox',
    'console?of=alice',
  ])('is not %s, which is refused with what to give in its place', async (path) => {
    process.env['BROWSER'] = '/nowhere/browser';
    const told = await opened({ url: served.url, console: path }, 'inbox').catch(failureOf);
    delete process.env['BROWSER'];
    expect(told).toBe(
      '--console is a path below --url, such as "console", and no address. Give the address itself as --url.',
    );
  });
});

describe('an address without the prefix of the routes', () => {
  it('is told so, with one that could be meant', async () => {
    const told = await toolsOf(await at('/')).catch(failureOf);
    expect(told).toContain('Cannot GET /tools: there are no such routes at');
    expect(told).toContain(`TOOLLOOP_URL=${served.url}/assistant`);
    expect(await inboxOf(await at('')).catch(failureOf)).toContain(
      'Cannot GET /approvals: there are',
    );
  });

  it('is not named where a route knows no such thing', async () => {
    const explained = await (
      await at('/assistant')
    )
      .rehearse('nowhere', { policy: 'strict' })
      .catch(failureOf);
    expect(explained).not.toContain('TOOLLOOP_URL');
  });
});
