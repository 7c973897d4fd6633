import { describe, expect, it } from '@jest/globals';
import { globSync, readFileSync } from 'node:fs';

/** The libraries that weigh more than most of ours together, and that many processes never need. */
const HEAVY = new Set([
  'class-validator',
  'class-transformer',
  'ajv',
  'ajv-formats',
  'openai',
  '@anthropic-ai/sdk',
  'gpt-tokenizer',
]);

/**
 * The modules of Node that a wire's first request loads: with TLS and undici, which the named
 * exports of `node:http` evaluate, they take two thirds of what an import of a wire took.
 */
const WITH_THE_FIRST_REQUEST = new Set([
  'node:http',
  'node:https',
  'node:http2',
  'node:tls',
  'node:zlib',
  'node:crypto',
]);

/** The imports of a source that load something, not only its types. */
function loadedBy(file: string): readonly string[] {
  const imports = readFileSync(file, 'utf8').matchAll(
    /^import\s+(?!type\b)[^;]*?from '([^']+)';$/gm,
  );
  return Array.from(imports, ([, name = '']) => name);
}

describe.each(['core', 'wire', 'protocol', 'openai', 'anthropic'])(
  'the import of %s',
  (library) => {
    it('loads no heavy library: each is loaded where it is first needed', () => {
      const files = globSync(`libs/${library}/src/**/*.ts`);
      expect(files.flatMap(loadedBy)).not.toEqual([]);
      expect(files.filter((file) => loadedBy(file).some((name) => HEAVY.has(name)))).toEqual([]);
    });
  },
);

describe.each(['wire', 'protocol', 'openai', 'anthropic'])('the import of %s', (library) => {
  it('loads no HTTP client: Node loads it with the first request', () => {
    const files = globSync(`libs/${library}/src/**/*.ts`);
    expect(
      files.filter((file) => loadedBy(file).some((name) => WITH_THE_FIRST_REQUEST.has(name))),
    ).toEqual([]);
  });
});

describe('the start of the demo', () => {
  it('loads no library before it knows that it needs one, and the maps of no package', () => {
    expect(
      ['src/start.ts', 'src/database-template.ts']
        .flatMap(loadedBy)
        .filter((name) => !name.startsWith('node:')),
    ).toEqual([]);
    expect(readFileSync('package.json', 'utf8')).not.toContain('--enable-source-maps');
  });
});
