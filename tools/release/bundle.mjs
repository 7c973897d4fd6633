import { readFileSync } from 'node:fs';
import { join, relative } from 'node:path';

/**
 * Bundles packages, one file for each entry and further ones for what entries share. It runs in a
 * process of its own: it reads `{ from, to, entries, located, whole }[]` from its standard input,
 * paths without `.js` within `from`, and prints the files that it wrote of each package.
 *
 * - `located`: modules that find another file by their own address, so that they stay where they
 *   are.
 * - `whole`: an entry whose modules are one file.
 */
const { rolldown } = await import('rolldown').catch((cause) => {
  throw new Error(
    'The packages are bundled by rolldown: run "npm ci --prefix tools/release" first.',
    {
      cause,
    },
  );
});
const outputs = [];
for (const bundled of JSON.parse(readFileSync(0, 'utf8'))) outputs.push(await bundle(bundled));
process.stdout.write(JSON.stringify(outputs));

async function bundle({ from, to, entries, located, whole }) {
  if (entries.length === 0) return [];
  const nameOf = (id) => relative(from, id).replace(/\.js$/, '');
  const build = await rolldown({
    input: Object.fromEntries(entries.map((name) => [name, join(from, `${name}.js`)])),
    external: (id) => !/^[./]/.test(id),
    platform: 'node',
    preserveEntrySignatures: 'strict',
  });
  const settings = {
    dir: to,
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: ({ name }) => (located.includes(name) ? '[name].js' : 'chunks/[name].js'),
    // the declarations beside it have the others
    comments: { legal: true, annotation: false, jsdoc: false },
    keepNames: true, // errors and logs name classes
  };
  const stay = located.map((name) => ({ name, test: (id) => nameOf(id) === name, priority: 2 }));
  const reached = whole && modulesOf(whole, (await build.generate(settings)).output);
  const groups = [
    ...stay,
    ...(reached ? [{ name: whole, test: (id) => reached.has(id), priority: 1 }] : []),
  ];
  const { output } = await build.write({ ...settings, codeSplitting: { groups } });
  await build.close();
  return output.map(({ fileName }) => fileName);
}

/** The modules that an entry loads when it is imported. */
function modulesOf(entry, output) {
  const chunks = new Map(output.map((chunk) => [chunk.fileName, chunk]));
  const files = new Set([`${entry}.js`]);
  for (const file of files)
    for (const imported of chunks.get(file)?.imports ?? []) files.add(imported);
  return new Set([...files].flatMap((file) => chunks.get(file)?.moduleIds ?? []));
}
