import { createServer, request as requested, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, describe, expect, it } from '@jest/globals';
import { type CanActivate, type ExecutionContext, Injectable } from '@nestjs/common';
import { ConsoleSessions } from '@toolloop/console';
import type { HttpRequest } from '@toolloop/http';
import { ALICE, login, serveConsole } from './console-app.js';

const HEADER = 'x-toolloop-console';
const closing: (() => Promise<unknown>)[] = [];
afterAll(() => Promise.all(closing.map((close) => close())));

const asAlice = () => ({ actor: ALICE, tenant: 'acme' });

/** A proxy that has the application below a path of its own, and takes that path away. */
async function proxied(target: string, path: string): Promise<string> {
  const server: Server = createServer((incoming, outgoing) => {
    const { url = '/', method = 'GET', headers } = incoming;
    if (!url.startsWith(`${path}/`)) return outgoing.writeHead(404).end();
    const asking = requested(target + url.slice(path.length), { method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
    });
    incoming.pipe(asking);
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  closing.push(() => new Promise((closed) => server.close(closed)));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`;
}

/** The addresses that a page gives its browser, as the browser finds them. */
async function addressesIn(
  page: string,
): Promise<{ readonly own: string; readonly api: string; readonly files: readonly string[] }> {
  const response = await fetch(page);
  const html = await response.text();
  if (response.status !== 200) throw new Error(`${page}: ${response.status} ${html}`);
  const found = (pattern: RegExp): string[] =>
    [...html.matchAll(pattern)].map(([, path = '']) =>
      new URL(path, response.url).href.replace(/\/+$/, ''),
    );
  const [own = ''] = found(/data-own="([^"]*)"/g);
  const [api = ''] = found(/data-api="([^"]*)"/g);
  return { own, api, files: found(/(?:src|href)="([^"]*assets[^"]*)"/g) };
}

it('has the link of a start lead to the page below the prefix of the application, also where Fastify ignores slashes itself', async () => {
  const { app, url } = await serveConsole(
    { developer: asAlice },
    { platform: 'fastify', prefix: '/api/', routerOptions: { ignoreTrailingSlash: true } },
  );
  closing.push(() => app.close());
  const link = app.get(ConsoleSessions).linkAt(url.replace(/\/api$/, '')) ?? '';
  expect(link.split('#')[0]).toBe(`${url}/console`);
  for (const slash of ['', '/']) expect((await fetch(`${url}/console${slash}`)).status).toBe(200);
});

describe.each(['express', 'fastify'] as const)('the page of the console on %s', (platform) => {
  it.each(['', '/'])(
    'finds its files, its session and the routes behind a path of a proxy, at an address that ends in "console%s"',
    async (slash) => {
      const { app, url } = await serveConsole({ login }, { platform, prefix: 'api' });
      closing.push(() => app.close());
      const base = (await proxied(url.replace(/\/api$/, ''), '/desk')) + '/api';
      const { own, api, files } = await addressesIn(`${base}/console${slash}`);
      expect([own, api]).toEqual([`${base}/console`, base]);
      for (const file of files) expect([file, (await fetch(file)).status]).toEqual([file, 200]);
      const entered = await fetch(`${own}/session`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', [HEADER]: '1' },
        body: JSON.stringify({ name: 'alice', password: 'secret' }),
      });
      const cookie = entered.headers.getSetCookie()[0]?.split(';')[0] ?? '';
      const { csrf } = (await (await fetch(`${own}/session`, { headers: { cookie } })).json()) as {
        readonly csrf: string;
      };
      expect((await fetch(`${api}/runs`, { headers: { cookie, [HEADER]: csrf } })).status).toBe(
        200,
      );
    },
  );
});

/** The application's own cookie, which only its own guard and its own identity know. */
const isAlice = ({ headers }: Pick<HttpRequest, 'headers'>): boolean =>
  headers.cookie?.includes('desk=alice') ?? false;

@Injectable()
class DeskGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    return isAlice(context.switchToHttp().getRequest<HttpRequest>());
  }
}

describe('a console behind the guard of its application', () => {
  it('shows nothing to those whom the guard refuses, and has the session and the routes by the identity of the application', async () => {
    const { app, url } = await serveConsole(
      { guard: DeskGuard },
      { identity: (request) => (isAlice(request) ? asAlice() : undefined), providers: [DeskGuard] },
    );
    closing.push(() => app.close());
    for (const path of ['', '/session', '/feed'])
      expect([path, (await fetch(`${url}/console${path}`)).status]).toEqual([path, 403]);
    const headers = { cookie: 'desk=alice' };
    const page = await fetch(`${url}/console`, { headers });
    expect([page.status, page.headers.getSetCookie()]).toEqual([200, []]);
    const session = (await (await fetch(`${url}/console/session`, { headers })).json()) as object;
    expect(session).toMatchObject({ actor: { id: 'alice' }, tenant: 'acme' });
    expect(session).not.toHaveProperty('csrf');
    expect((await fetch(`${url}/runs`, { headers })).status).toBe(200);
    const feed = await fetch(`${url}/console/feed`, { headers });
    expect(feed.status).toBe(200);
    await feed.body?.cancel();
  });
});

describe('a console that the session of its application opens', () => {
  it('gives a session of its own with the page to the person whom the application knows, and to no one else', async () => {
    const { app, url } = await serveConsole({
      session: (request) => (isAlice(request) ? asAlice() : null),
    });
    closing.push(() => app.close());
    const strange = await fetch(`${url}/console`);
    expect([strange.status, strange.headers.getSetCookie()]).toEqual([200, []]);
    expect(await (await fetch(`${url}/console/session`)).json()).toEqual({ ways: ['session'] });
    const known = await fetch(`${url}/console`, { headers: { cookie: 'desk=alice' } });
    const cookie = known.headers.getSetCookie()[0]?.split(';')[0] ?? '';
    const session = (await (
      await fetch(`${url}/console/session`, { headers: { cookie } })
    ).json()) as { readonly csrf: string };
    expect(session).toMatchObject({ actor: { id: 'alice' }, tenant: 'acme' });
    expect(
      (await fetch(`${url}/runs`, { headers: { cookie, [HEADER]: session.csrf } })).status,
    ).toBe(200);
    expect((await fetch(`${url}/runs`, { headers: { cookie: 'desk=alice' } })).status).toBe(401);
    expect((await fetch(`${url}/console`, { headers: { cookie } })).headers.getSetCookie()).toEqual(
      [],
    );
  });
});
