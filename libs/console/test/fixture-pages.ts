import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';

const VITE = [
  'node_modules/vite/bin/vite.js',
  'build',
  '--mode',
  'fixtures',
  '--config',
  'libs/console/vite.config.ts',
  '--logLevel',
  'error',
  '--emptyOutDir',
  '--outDir',
];
const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
};

/** The screens of the console without an application behind them. */
export interface ServedFixtures {
  /** The page: `?state=long&theme=dark#/runs` is a screen in a state. */
  readonly url: string;
  close(): Promise<void>;
}

/**
 * Builds the screens into a folder of their own, since several workers may show them at once, and
 * serves them on a free port.
 */
export async function serveFixtures(): Promise<ServedFixtures> {
  const built = mkdtempSync(join(tmpdir(), 'toolloop-fixtures-'));
  execFileSync(process.execPath, [...VITE, built]);
  const server = createServer(({ url: path = '/' }, response) => {
    const file = join(built, new URL(path, 'http://fixtures').pathname);
    if (!existsSync(file)) return response.writeHead(404).end();
    response
      .writeHead(200, { 'content-type': TYPES[extname(file)] ?? 'application/octet-stream' })
      .end(readFileSync(file));
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const { port } = server.address() as AddressInfo;
  const close = (): Promise<void> =>
    new Promise((closed) => {
      server.close(() => closed());
      server.closeAllConnections();
      rmSync(built, { recursive: true });
    });
  return { url: `http://127.0.0.1:${port}/fixtures.html`, close };
}
