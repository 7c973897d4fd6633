// Writes the reference of every public entry from its types and doc comments, one page an entry,
// and their navigation.
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Application } from 'typedoc';

const docs = dirname(fileURLToPath(import.meta.url));
const root = join(docs, '..');
const target = join(docs, 'reference/api');

/** The source files of the entries by their names, `internal` ones left out. */
const entries = readdirSync(join(root, 'libs')).flatMap((library) => {
  const { name, exports = {} } = JSON.parse(
    readFileSync(join(root, 'libs', library, 'package.json'), 'utf8'),
  );
  return Object.entries(exports).flatMap(([subpath, to]) => {
    const source = typeof to === 'object' ? to['@toolloop/source'] : undefined;
    return source === undefined || subpath === './internal'
      ? []
      : [{ name: name + subpath.slice(1), file: join(root, 'libs', library, source) }];
  });
});

rmSync(target, { recursive: true, force: true });
const app = await Application.bootstrapWithPlugins({
  plugin: ['typedoc-plugin-markdown'],
  entryPoints: entries.map(({ file }) => file),
  tsconfig: join(docs, 'tsconfig.api.json'),
  name: 'API',
  readme: 'none',
  skipErrorChecking: true,
  disableSources: true,
  excludePrivate: true,
  excludeInternal: true,
  excludeExternals: true,
  logLevel: 'Error',
  outputFileStrategy: 'modules',
  outputs: [{ name: 'markdown', path: target }],
  entryFileName: 'index.md',
  hideBreadcrumbs: true,
  hidePageHeader: true,
  sort: ['alphabetical'],
});
const project = await app.convert();
if (!project) throw new Error('TypeDoc found nothing.');
for (const module of project.children ?? []) {
  // TypeDoc names a module by its file below `libs`, without the extension and without a last
  // `index`.
  const entry = entries.find(
    ({ file }) =>
      relative(join(root, 'libs'), file).replace(/(?:\/index)?\.ts$/, '') === module.name,
  );
  if (!entry) throw new Error(`No entry is the module ${module.name}.`);
  module.name = entry.name;
}
await app.generateOutputs(project);

const pages = readdirSync(target, { recursive: true }).filter(
  (file) => file.endsWith('.md') && file !== 'index.md',
);
const items = pages.map((file) => ({
  text: titleOf(file),
  link: `/reference/api/${file.slice(0, -'.md'.length)}`,
}));
const first = { text: 'All entries', link: '/reference/api/' };
const sorted = items.toSorted((one, other) => (one.text < other.text ? -1 : 1));
writeFileSync(
  join(target, 'sidebar.json'),
  `${JSON.stringify([{ text: 'API', items: [first, ...sorted] }], null, 2)}\n`,
);

function titleOf(file) {
  return /^# (.+)$/m.exec(readFileSync(join(target, file), 'utf8'))?.[1] ?? file;
}
