import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { ConsoleModule, ConsoleSessions } from '@toolloop/console';
import { ToolLoopModule } from '@toolloop/core';
import { ToolLoopHttpModule } from '@toolloop/http';
import { ScriptedModel } from '@toolloop/testing';
import { assertConsole } from '../src/console-options.js';
import { consoleImports, login, serveConsole } from './console-app.js';

const HEADER = 'x-toolloop-console';
let app: INestApplication;
let url: string;

beforeAll(async () => {
  ({ app, url } = await serveConsole({ login }, { prefix: 'api' }));
});
afterAll(() => app.close());

function signIn(
  body: object,
  at = url,
  headers: Record<string, string> = { [HEADER]: '1' },
): Promise<Response> {
  return fetch(`${at}/console/session`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
}

function cookieOf(response: Response): string {
  return response.headers.getSetCookie()[0]?.split(';')[0] ?? '';
}

const OUT = { ways: ['login'] };

async function asked(headers: Record<string, string>): Promise<number> {
  return (await fetch(`${url}/runs`, { headers })).status;
}

async function sessionOf(
  cookie: string,
  at = url,
): Promise<{ readonly status: number; readonly body: Record<string, unknown> }> {
  const response = await fetch(`${at}/console/session`, { headers: { cookie } });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

describe('the way into the console', () => {
  it('shows its page to anyone under a policy that allows no inline code and no other origin, and no data', async () => {
    const page = await fetch(`${url}/console`);
    const policy = page.headers.get('content-security-policy') ?? '';
    expect([page.status, page.headers.get('content-type')]).toEqual([
      200,
      'text/html; charset=utf-8',
    ]);
    expect(policy).toMatch(/default-src 'none'; script-src 'self'; style-src 'self'/);
    expect(policy).not.toContain('unsafe');
    expect(await sessionOf('')).toEqual({ status: 200, body: { ways: ['login'] } });
  });

  it('gives whom the application lets in a signed, host-only cookie of eight hours that scripts and other sites cannot use', async () => {
    const entered = await signIn({ name: 'alice', password: 'secret' });
    const [cookie = ''] = entered.headers.getSetCookie();
    expect(entered.status).toBe(204);
    expect(cookie).toMatch(
      /^toolloop_console_[\w-]{8}=[\w-]+\.[\w-]+; Path=\/; Max-Age=28800; HttpOnly; SameSite=Strict$/,
    );
    const { body } = await sessionOf(cookieOf(entered));
    expect(body).toMatchObject({
      actor: { id: 'alice', name: 'Alice', roles: ['support'] },
      tenant: 'acme',
      may: ['explain'],
      durable: false,
    });
    const left = await fetch(`${url}/console/session`, {
      method: 'DELETE',
      headers: { [HEADER]: '1' },
    });
    expect(left.headers.getSetCookie()[0]).toContain('Max-Age=0');
  });

  it('opens the routes of the application with the cookie and the header that only the page knows, and with neither alone', async () => {
    const cookie = cookieOf(await signIn({ name: 'alice', password: 'secret' }));
    const { csrf } = (await sessionOf(cookie)).body;
    expect(await asked({ cookie, [HEADER]: String(csrf) })).toBe(200);
    expect(await asked({ cookie })).toBe(401);
    expect(await asked({ cookie, [HEADER]: 'guessed' })).toBe(401);
    expect(await asked({ [HEADER]: String(csrf) })).toBe(401);
  });

  it('believes no cookie that was changed, and lets no one in who is not in the directory of actors', async () => {
    const cookie = cookieOf(await signIn({ name: 'alice', password: 'secret' }));
    const [name, value = ''] = cookie.split('=');
    const [body = '', signature] = value.split('.');
    const claims = JSON.parse(Buffer.from(body, 'base64url').toString()) as object;
    const forged = Buffer.from(JSON.stringify({ ...claims, actorId: 'mia' })).toString('base64url');
    expect((await sessionOf(`${name}=${forged}.${signature}`)).body).toEqual(OUT);
    expect((await sessionOf(`${name}=${body}.`)).body).toEqual(OUT);
    expect(
      (await sessionOf(cookieOf(await signIn({ name: 'gone', password: 'secret' })))).body,
    ).toEqual(OUT);
  });

  it('lets no one in by a copy of the cookie of a session that was left, and leaves the other sessions of its person', async () => {
    const [cookie, other] = [
      await signIn({ name: 'alice', password: 'secret' }),
      await signIn({ name: 'alice', password: 'secret' }),
    ].map(cookieOf);
    const left = await fetch(`${url}/console/session`, {
      method: 'DELETE',
      headers: { [HEADER]: '1', cookie: cookie ?? '' },
    });
    expect(left.status).toBe(204);
    expect((await sessionOf(cookie ?? '')).body).toEqual(OUT);
    expect((await sessionOf(other ?? '')).body).toMatchObject({ actor: { id: 'alice' } });
  });

  it('has a cookie of another name than a second application on the same host, whose port a browser does not look at', async () => {
    const second = await serveConsole({ login });
    const names = [
      await signIn({ name: 'alice', password: 'secret' }),
      await signIn({ name: 'alice', password: 'secret' }, second.url),
    ].map((entered) => cookieOf(entered).split('=')[0]);
    expect(new Set(names).size).toBe(2);
    await second.app.close();
  });

  it('takes no form of another page, which cannot send the header', async () => {
    expect((await signIn({ name: 'alice', password: 'secret' }, url, {})).status).toBe(401);
  });

  it('tells the sixth try of a minute for a name when to come again', async () => {
    const tries = [1, 2, 3, 4, 5, 6].map(() => signIn({ name: 'mallory', password: 'guess' }));
    const answers = await Promise.all(tries);
    expect(answers.filter(({ status }) => status === 401)).toHaveLength(5);
    const refused = answers.find(({ status }) => status === 429);
    expect(Number(refused?.headers.get('retry-after'))).toBeGreaterThan(0);
  });
});

describe('the link of a start in development', () => {
  it('lets the developer in once, on Fastify and under a path of its own', async () => {
    const served = await serveConsole(
      { path: 'ops/console', developer: () => ({ actor: { id: 'alice' }, tenant: 'acme' }) },
      { platform: 'fastify' },
    );
    const link = served.app.get(ConsoleSessions).linkAt(served.url) ?? '';
    const token = link.split('#link=')[1];
    expect(link.split('#')[0]).toBe(`${served.url}/ops/console`);
    const at = `${served.url}/ops`;
    const entered = await signIn({ link: token }, at);
    expect((await sessionOf(cookieOf(entered), at)).body).toMatchObject({ actor: { id: 'alice' } });
    expect((await signIn({ link: token }, at)).status).toBe(401);
    await served.app.close();
  });
});

describe('the way in behind a proxy that the application trusts', () => {
  it('counts the tries of each visitor, who cannot write down another address, and not those of all for one', async () => {
    const proxied = ToolLoopHttpModule.forRoot({
      identity: () => undefined,
      proxies: ['127.0.0.0/8'],
    });
    const loop = ToolLoopModule.forRoot({ model: new ScriptedModel([]), policy: { allow: [] } });
    const imports = [
      loop,
      proxied,
      ConsoleModule.forRoot({ developer: () => ({ actor: { id: 'ada' }, tenant: 'acme' }) }),
    ];
    const alone = (await Test.createTestingModule({ imports }).compile()).createNestApplication({
      logger: false,
    });
    await alone.listen(0, '127.0.0.1');
    const at = await alone.getUrl();
    const statusOf = async (from: string): Promise<number> =>
      (await signIn({ link: 'guess' }, at, { [HEADER]: '1', 'x-forwarded-for': from })).status;
    for (const spoofed of [1, 2, 3, 4, 5])
      expect(await statusOf(`203.0.113.${spoofed}, 198.51.100.7`)).toBe(401);
    expect(await statusOf('203.0.113.6, 198.51.100.7')).toBe(429);
    expect(await statusOf('198.51.100.8')).toBe(401);
    await alone.close();
  });
});

describe('the developer of an application without a directory of actors', () => {
  it('is let in by the link, and for as long as the application names them', async () => {
    let named: string | undefined = 'ada';
    const developer = () =>
      named === undefined ? undefined : { actor: { id: named }, tenant: 'acme' };
    const loop = ToolLoopModule.forRoot({ model: new ScriptedModel([]), policy: { allow: [] } });
    const imports = [
      loop,
      ToolLoopHttpModule.forRoot({ identity: () => undefined }),
      ConsoleModule.forRoot({ developer }),
    ];
    const alone = (await Test.createTestingModule({ imports }).compile()).createNestApplication({
      logger: false,
    });
    await alone.listen(0, '127.0.0.1');
    const at = await alone.getUrl();
    const token = (alone.get(ConsoleSessions).linkAt(at) ?? '').split('#link=')[1];
    const entered = await signIn({ link: token }, at);
    expect(entered.status).toBe(204);
    expect((await sessionOf(cookieOf(entered), at)).body).toMatchObject({ actor: { id: 'ada' } });
    named = 'eve';
    expect((await sessionOf(cookieOf(entered), at)).body).not.toHaveProperty('actor');
    named = undefined;
    expect((await sessionOf(cookieOf(entered), at)).body).not.toHaveProperty('actor');
    await alone.close();
  });
});

describe('a console that people sign in to, of an application without a directory of actors', () => {
  it('keeps the application from starting, and says what to provide', async () => {
    const loop = ToolLoopModule.forRoot({ model: new ScriptedModel([]), policy: { allow: [] } });
    const imports = [
      loop,
      ToolLoopHttpModule.forRoot({ identity: () => undefined }),
      ConsoleModule.forRoot({ login }),
    ];
    const built = await Test.createTestingModule({ imports }).compile();
    await expect(built.createNestApplication({ logger: false }).init()).rejects.toThrow(
      /nothing loads them at their next request\.\s+Provide a class that extends ActorDirectory/,
    );
  });
});

describe('a console without a server', () => {
  it('lets its application start, as a command line and a test do', async () => {
    const built = await Test.createTestingModule({ imports: consoleImports({ login }) }).compile();
    await expect(built.init()).resolves.toBe(built);
    await built.close();
  });
});

describe('the options of the console', () => {
  it('refuse a start in production without a gate, and one whose sessions nothing signs', () => {
    expect(() => assertConsole({ developer: () => undefined }, true)).toThrow(
      /no gate, and this is production/,
    );
    expect(() => assertConsole({ login: () => undefined }, true)).toThrow(
      /Nothing signs the sessions/,
    );
    expect(() =>
      assertConsole({ login: () => undefined, secret: 'x'.repeat(32) }, true),
    ).not.toThrow();
  });

  it('refuse a console that nothing can open, and a secret that is too short', () => {
    expect(() => assertConsole({}, false)).toThrow(/Nothing can open the console/);
    expect(() => assertConsole({ login: () => undefined, secret: 'short' }, false)).toThrow(
      /secret/,
    );
    expect(ConsoleModule.forRoot).toBeDefined();
  });
});
