import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, extname, join } from 'node:path';
import { brotliCompressSync, gzipSync } from 'node:zlib';

/**
 * The files that Vite has built, each read and compressed when it is first asked for. Names hold a
 * hash of their content, so that browsers keep them.
 */
export class PageFiles {
  private readonly folder = join(
    dirname(createRequire(import.meta.url).resolve('@toolloop/console/package.json')),
    'dist',
    'page',
  );
  private readonly sent = new Map<string, SentFile>();
  private names: ReadonlySet<string> | undefined;

  /** The page itself; undefined where it was not built. */
  get html(): string | undefined {
    const file = join(this.folder, 'index.html');
    return existsSync(file) ? readFileSync(file, 'utf8') : undefined;
  }

  /** Finds a file by its name, which leads to no other folder; undefined where there is none. */
  find(name: string, accepted: string): SentFile | undefined {
    this.names ??= new Set(existsSync(this.folder) ? readdirSync(join(this.folder, 'assets')) : []);
    const type = TYPES[extname(name)];
    if (!this.names.has(name) || type === undefined) return undefined;
    const encoding = ['br', 'gzip'].find(
      (offered) => accepted.includes(offered) && type.includes('charset'),
    );
    const key = `${encoding ?? ''} ${name}`;
    const known = this.sent.get(key) ?? this.read(name, type, encoding);
    this.sent.set(key, known);
    return known;
  }

  private read(name: string, type: string, encoding: string | undefined): SentFile {
    const body = readFileSync(join(this.folder, 'assets', name));
    const encode = encoding === undefined ? undefined : ENCODERS[encoding];
    return {
      body: encode ? encode(body) : body,
      headers: {
        'content-type': type,
        'cache-control': 'public, max-age=31536000, immutable',
        vary: 'accept-encoding',
        'x-content-type-options': 'nosniff',
        ...(encoding !== undefined && { 'content-encoding': encoding }),
      },
    };
  }
}

/** A file of the page as it is sent. */
export interface SentFile {
  readonly body: Buffer;
  readonly headers: Readonly<Record<string, string>>;
}

const TYPES: Readonly<Record<string, string>> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
  '.png': 'image/png',
};

const ENCODERS: Readonly<Record<string, (body: Buffer) => Buffer>> = {
  br: brotliCompressSync,
  gzip: gzipSync,
};
