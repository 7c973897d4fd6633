import { afterAll, describe, expect, it } from '@jest/globals';
import { PendingService } from '@toolloop/core';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { PEOPLE, type Platform, type Served, serveApp, closeApps } from './served-app.js';

afterAll(closeApps);

/**
 * An application whose people have a cookie, which a browser sends with whatever any page makes it
 * send.
 */
function withCookies(
  platform: Platform,
  model: ScriptedModel,
  origins: readonly string[] = [],
): Promise<Served> {
  const [alice] = PEOPLE;
  const identity = ({
    headers,
  }: {
    readonly headers: { readonly cookie?: string; readonly authorization?: string };
  }) =>
    alice && (headers.cookie === 'sid=alice' || headers.authorization === 'Bearer alice')
      ? { actor: alice, tenant: alice.tenant }
      : undefined;
  return serveApp({ model, platform, http: { identity, ...(origins.length > 0 && { origins }) } });
}

const COOKIE = { cookie: 'sid=alice' };
const FORM = { ...COOKIE, 'content-type': 'application/x-www-form-urlencoded' };
const OF_OTHERS = { 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' };

async function refusal(response: Response): Promise<readonly [number, string]> {
  return [response.status, ((await response.json()) as { readonly code: string }).code];
}

const post = (
  served: Served,
  path: string,
  headers: Record<string, string>,
  body?: string,
): Promise<Response> =>
  fetch(served.url + path, { method: 'POST', headers, ...(body !== undefined && { body }) });

describe.each<Platform>(['express', 'fastify'])(
  'a page of another site on %s, with the cookie of a person',
  (platform) => {
    it('decides nothing by a form, though a parser of the application reads it', async () => {
      const served = await withCookies(
        platform,
        new ScriptedModel([calls(call('notes__delete', { id: 'n-1' })), text('Done.')]),
      );
      await post(
        served,
        '/chat/answer',
        { ...COOKIE, 'content-type': 'application/json' },
        '{"message":"Delete it"}',
      );
      const person = { actor: PEOPLE[0], tenant: 'acme' };
      const pending: PendingService<(typeof PEOPLE)[number] | undefined> =
        served.app.get(PendingService);
      const [asked] = await pending.list(person);
      const path = `/approvals/${asked?.approvalId}`;
      expect(
        await refusal(await post(served, path, { ...FORM, ...OF_OTHERS }, 'decision=approve')),
      ).toEqual([403, 'forbidden_origin']);
      // of an old browser
      expect(await refusal(await post(served, path, FORM, 'decision=approve'))).toEqual([
        415,
        'unsupported_media_type',
      ]);
      expect(await pending.list(person)).toHaveLength(1);
    });

    it.each(['same-site', 'cross-site'])(
      'starts and stops nothing by what a browser sends unasked from %s',
      async (site) => {
        const served = await withCookies(platform, new ScriptedModel([]));
        const headers = { ...COOKIE, 'sec-fetch-site': site };
        expect(await refusal(await post(served, '/runs/some/cancel', headers))).toEqual([
          403,
          'forbidden_origin',
        ]);
        const image = await fetch(`${served.url}/chat/stream?message=Delete+it`, { headers });
        expect(await refusal(image)).toEqual([403, 'forbidden_origin']);
      },
    );

    it('may, where "origins" lists it, and so may code that its browser has asked about before', async () => {
      const app = 'https://app.example.com';
      const served = await withCookies(
        platform,
        new ScriptedModel([text('Hi.'), text('Hi.'), text('Hi.')]),
        [app],
      );
      const listed = { ...COOKIE, ...OF_OTHERS, origin: app };
      expect(
        (await fetch(`${served.url}/chat/stream?message=hi`, { headers: listed })).status,
      ).toBe(200);
      expect((await post(served, '/runs/some/cancel', listed)).status).toBe(404);
      const json = { ...COOKIE, ...OF_OTHERS, 'content-type': 'application/json; charset=utf-8' };
      expect((await post(served, '/chat/answer', json, '{"message":"hi"}')).status).toBe(200);
      const bearer = { ...OF_OTHERS, authorization: 'Bearer alice' };
      expect((await post(served, '/runs/some/cancel', bearer)).status).toBe(404);
    });

    it('is told which methods it may use, those that delete too', async () => {
      const served = await serveApp({
        model: new ScriptedModel([]),
        platform,
        http: { origins: ['https://app.example.com'] },
      });
      const headers = {
        origin: 'https://app.example.com',
        'access-control-request-method': 'DELETE',
      };
      const response = await fetch(`${served.url}/conversations/talk`, {
        method: 'OPTIONS',
        headers,
      });
      expect(response.headers.get('access-control-allow-methods')).toMatch(/POST.*DELETE/);
    });
  },
);

describe.each<Platform>(['express', 'fastify'])(
  'a page of the application itself on %s',
  (platform) => {
    it.each(['same-origin', 'none'])(
      'reads, asks and stops with a cookie, where its browser says %s',
      async (site) => {
        const served = await withCookies(platform, new ScriptedModel([text('Hi.'), text('Hi.')]));
        const headers = { ...COOKIE, 'sec-fetch-site': site };
        expect((await post(served, '/runs/some/cancel', headers)).status).toBe(404);
        expect((await fetch(`${served.url}/chat/stream?message=hi`, { headers })).status).toBe(200);
      },
    );

    it('is told what to send where it sends a text', async () => {
      const served = await withCookies(platform, new ScriptedModel([]));
      const response = await post(
        served,
        '/chat',
        { ...COOKIE, 'content-type': 'text/plain' },
        '{"message":"hi"}',
      );
      expect([response.status, await response.text()]).toEqual([
        415,
        expect.stringContaining('Send the body as application/json'),
      ]);
    });
  },
);
