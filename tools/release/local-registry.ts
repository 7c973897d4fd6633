import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { npm } from './packages.js';

const START_MS = 60_000;

/**
 * A registry on this machine that has the packages of this repository, and asks the one that npm is
 * set to for all others.
 */
export class LocalRegistry implements AsyncDisposable {
  private constructor(
    private readonly process: ChildProcess,
    readonly url: string,
    /** The settings with which a package manager uses it. */
    readonly env: Readonly<Record<string, string>>,
  ) {}

  /** Starts one whose files are in a folder. */
  static async start(folder: string): Promise<LocalRegistry> {
    mkdirSync(folder, { recursive: true });
    const port = await freePort();
    const url = `http://127.0.0.1:${port}/`;
    const config = join(folder, 'verdaccio.yaml');
    writeFileSync(
      config,
      JSON.stringify(settings(folder, npm('config', 'get', 'registry').trim())),
    );
    const settingsFile = join(folder, 'npmrc');
    writeFileSync(settingsFile, `registry=${url}\n//127.0.0.1:${port}/:_authToken=local\n`);
    const program = 'tools/release/node_modules/verdaccio/bin/verdaccio';
    const started = spawn(
      process.execPath,
      [program, '--config', config, '--listen', `127.0.0.1:${port}`],
      {
        stdio: ['ignore', 'ignore', 'inherit'],
        env: { ...process.env, NODE_NO_WARNINGS: '1' },
      },
    );
    await answers(url, started);
    return new LocalRegistry(started, url, {
      npm_config_userconfig: settingsFile,
      npm_config_registry: url,
      npm_config_cache: join(folder, 'cache'),
    });
  }

  /** Publishes tarballs. */
  publish(tarballs: Iterable<string>): void {
    for (const tarball of tarballs)
      execFileSync('npm', ['publish', tarball, '--silent', '--provenance=false'], {
        env: { ...process.env, ...this.env },
        stdio: ['ignore', 'ignore', 'inherit'],
      });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.process.exitCode !== null) return;
    this.process.kill();
    await once(this.process, 'exit');
  }
}

function settings(folder: string, upstream: string): object {
  const own = { access: '$all', publish: '$all' };
  return {
    storage: join(folder, 'storage'),
    uplinks: { npm: { url: upstream, timeout: '60s', maxage: '60m' } },
    packages: {
      '@toolloop/*': own,
      toolloop: own,
      'create-toolloop': own,
      '**': { access: '$all', proxy: 'npm' },
    },
    auth: { htpasswd: { file: join(folder, 'users') } },
    max_body_size: '50mb',
    log: { type: 'stdout', level: 'fatal' },
  };
}

async function answers(url: string, started: ChildProcess): Promise<void> {
  for (const end = performance.now() + START_MS; performance.now() < end; await wait(200)) {
    if (started.exitCode !== null)
      throw new Error(
        `Verdaccio has ended with ${started.exitCode}. Run "npm ci --prefix tools/release" first.`,
      );
    const isThere = await fetch(`${url}-/ping`).then(
      ({ ok }) => ok,
      () => false,
    );
    if (isThere) return;
  }
  throw new Error(`Verdaccio does not answer at ${url}.`);
}

/** A port that is free at the moment. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new Error('No port is free.');
  return address.port;
}
