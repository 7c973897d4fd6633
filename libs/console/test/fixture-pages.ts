import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join } from 'node:path';

const BUILT = 'libs/console/dist/fixtures';
const VITE = [
  'node_modules/vite/bin/vite.js',
  'build',
  '--mode',
  'fixtures',
  '--config',
  'libs/console/vite.config.ts',
  '--logLevel',
  'error',
];
const TYPES: Readonly<Record<string, string>> = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css' };

/** The screens of the console without an application behind them. */
export interface ServedFixtures {
  /** The page: `?state=long&theme=dark#/runs` is a screen in a state. */
  readonly url: string;
  close(): Promise<void>;
}

/** Builds the screens, and serves them on a free port. */
export async function serveFixtures(): Promise<ServedFixtures> {
  execFileSync(process.execPath, VITE);
  const server = createServer(({ url: path = '/' }, response) => {
    const file = join(BUILT, new URL(path, 'http://fixtures').pathname);
    if (!existsSync(file)) return response.writeHead(404).end();
    response.writeHead(200, { 'content-type': TYPES[extname(file)] ?? 'application/octet-stream' }).end(readFileSync(file));
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const { port } = server.address() as AddressInfo;
  const close = (): Promise<void> =>
    new Promise((closed) => {
      server.close(() => closed());
      server.closeAllConnections();
    });
  return { url: `http://127.0.0.1:${port}/fixtures.html`, close };
}
