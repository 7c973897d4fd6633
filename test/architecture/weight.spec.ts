import { describe, expect, it } from '@jest/globals';
import { globSync, readFileSync } from 'node:fs';

/** The libraries that weigh more than most of ours together, and that many processes never need. */
const HEAVY = new Set(['class-validator', 'class-transformer', 'ajv', 'ajv-formats', 'openai', '@anthropic-ai/sdk', 'gpt-tokenizer']);

/** The imports of a source that load something, not only its types. */
function loadedBy(file: string): readonly string[] {
  const imports = readFileSync(file, 'utf8').matchAll(/^import\s+(?!type\b)[^;]*?from '([^']+)';$/gm);
  return Array.from(imports, ([, name = '']) => name);
}

describe.each(['core', 'wire', 'protocol', 'openai', 'anthropic'])('the import of %s', (library) => {
  it('loads no heavy library: each is loaded where it is first needed', () => {
    const files = globSync(`libs/${library}/src/**/*.ts`);
    expect(files.flatMap(loadedBy)).not.toEqual([]);
    expect(files.filter((file) => loadedBy(file).some((name) => HEAVY.has(name)))).toEqual([]);
  });
});
