import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import {
  filesOf,
  foldersOf,
  importsOf,
  packageOf,
  pathOf,
  specifiersIn,
  type Import,
} from './imports.js';
import {
  CORE_FOLDERS,
  INTERNAL_READERS,
  LAYERS,
  LIBRARIES,
  NAMELESS_FOLDERS,
  PLUGINS,
} from './layers.js';

const SCOPE = '@toolloop/';
const libraries = LIBRARIES;

/** The library a package import leads to; undefined for a package from outside. */
function libraryOf(found: Import): string | undefined {
  const name = packageOf(found);
  return name?.startsWith(SCOPE) ? name.slice(SCOPE.length) : undefined;
}

/**
 * Whether an import of a library names one of its entries; true of everything that is no library of
 * ours.
 */
function isEntry(found: Import): boolean {
  const library = libraryOf(found);
  if (library === undefined) return true;
  const { exports } = JSON.parse(readFileSync(`libs/${library}/package.json`, 'utf8')) as {
    readonly exports: object;
  };
  return Object.keys(exports).includes(`.${found.specifier.slice(`${SCOPE}${library}`.length)}`);
}

function isInternal({ specifier }: Import): boolean {
  return specifier.endsWith('/internal');
}

/**
 * The folder of core a file or a relative import lies in: '' for the files directly in core/src,
 * two names for a folder of `tools` or of a plugin.
 */
function coreFolderOf(path: string): string {
  return /^libs\/core\/src\/((?:(?:tools|plugins)\/)?[^/]+)\//.exec(path)?.[1] ?? '';
}

/** The place of a folder in the order; -1 for a plugin, which has none yet. */
function rankOf(folder: string): number {
  return CORE_FOLDERS.findIndex((step) => step.includes(folder));
}

function isPlugin(folder: string): boolean {
  return folder.startsWith(`${PLUGINS}/`);
}

/**
 * What a library's package.json lets its sources import; types of a package count as the package.
 */
function declaredBy(library: string): Set<string> {
  const manifest = JSON.parse(readFileSync(`libs/${library}/package.json`, 'utf8')) as Record<
    string,
    object | undefined
  >;
  const names = Object.keys({
    ...manifest['dependencies'],
    ...manifest['peerDependencies'],
    ...manifest['optionalDependencies'],
  });
  return new Set(names.flatMap((name) => [name, name.replace(/^@types\//, '')]));
}

describe('the reader of imports', () => {
  it.each([
    ['static', `import { a } from 'x';`],
    ['side effect', `import 'x';`],
    ['type-only', `import type { A } from 'x';`],
    ['re-exported', `export { a } from 'x';`],
    ['re-exported type', `export type { A } from 'x';`],
    ['re-exported whole', `export * from 'x';`],
    ['dynamic', `const quote = /\`/; const a = await import('x');`],
    ['dynamic in a template literal', 'const a = `${(await import(`x`)).a}`;'],
    ['type query', `type A = import('x').A;`],
    ['import equals', `import a = require('x');`],
    ['require', `const a = require('x');`],
  ])('sees a %s import', (_kind, text) => {
    expect(specifiersIn(text)).toEqual(['x']);
  });
});

describe('the table of layers', () => {
  it('has a row for every folder in libs', () => {
    expect(libraries).not.toEqual([]);
    expect(libraries.filter((library) => !(library in LAYERS))).toEqual([]);
  });

  it('names in a row only rows above it', () => {
    const order = Object.keys(LAYERS);
    const upward = order.filter((row, index) =>
      LAYERS[row]?.some((allowed) => !order.slice(0, index).includes(allowed)),
    );
    expect(upward).toEqual([]);
  });

  it('lets no library import testing, but the one that evaluates', () => {
    expect(Object.keys(LAYERS).filter((row) => LAYERS[row]?.includes('testing'))).toEqual([
      'evals',
    ]);
  });
});

describe.each(libraries)('libs/%s', (library) => {
  const imports = importsOf(`libs/${library}/src`);

  it('has sources', () => {
    expect(filesOf(`libs/${library}/src`)).not.toEqual([]);
  });

  it('imports only what its row allows', () => {
    const allowed = LAYERS[library] ?? [];
    const forbidden = imports.filter((found) => {
      const target = libraryOf(found);
      return target !== undefined && !allowed.includes(target);
    });
    expect(forbidden).toEqual([]);
  });

  it('reaches another library only by the entries that library has', () => {
    const deep = imports.filter((found) => !isEntry(found));
    const hops = imports.filter(
      (found) => pathOf(found)?.startsWith(`libs/${library}/src/`) === false,
    );
    expect([...deep, ...hops]).toEqual([]);
  });

  it('keeps off `/internal`, unless it is one of the libraries for which that entry is', () => {
    const used = imports.filter(isInternal);
    expect(INTERNAL_READERS.includes(library) ? [] : used).toEqual([]);
  });

  it('logs through the logger that writes hidden characters as escapes, if it may read `/internal`', () => {
    const OWN = 'libs/core/src/findings/logger.ts';
    const files =
      INTERNAL_READERS.includes(library) || library === 'core'
        ? filesOf(`libs/${library}/src`)
        : [];
    const ofNest = /import (?:type )?\{[^}]*\bLogger\b[^}]*\} from '@nestjs\/common'/;
    expect(files.filter((file) => file !== OWN && ofNest.test(readFileSync(file, 'utf8')))).toEqual(
      [],
    );
  });

  it('declares every package it imports', () => {
    const declared = declaredBy(library);
    const undeclared = imports.filter((found) => {
      const name = packageOf(found);
      return name !== undefined && !declared.has(name);
    });
    expect(undeclared).toEqual([]);
  });

  it('holds no specs among its sources', () => {
    expect(filesOf(`libs/${library}/src`).filter((file) => file.endsWith('spec.ts'))).toEqual([]);
  });
});

describe('the folders of core', () => {
  const inFolders = importsOf('libs/core/src').filter(({ file }) => coreFolderOf(file) !== '');

  it('are all in the order of the data', () => {
    const named = [...new Set(filesOf('libs/core/src').map(coreFolderOf))];
    const unplaced = named.filter(
      (folder) => folder !== '' && !isPlugin(folder) && rankOf(folder) === -1,
    );
    expect(unplaced).toEqual([]);
  });

  it('import only themselves and the folders before them', () => {
    const forbidden = inFolders.filter((found) => {
      const target = pathOf(found);
      const folder = coreFolderOf(found.file);
      if (target === undefined || isPlugin(folder) || isPlugin(coreFolderOf(target))) return false;
      const rank = rankOf(coreFolderOf(target));
      return rank === -1 || rank > rankOf(folder);
    });
    expect(inFolders).not.toEqual([]);
    expect(forbidden).toEqual([]);
  });
});

describe('the repository', () => {
  it('imports testing from specs and from the library that evaluates only', () => {
    const imports = [
      ...importsOf('src'),
      ...libraries.flatMap((library) => importsOf(`libs/${library}/src`)),
    ];
    expect(imports).not.toEqual([]);
    expect(
      imports.filter(
        (found) => libraryOf(found) === 'testing' && !found.file.startsWith('libs/evals/'),
      ),
    ).toEqual([]);
  });

  it('keeps the demo off the insides of the libraries', () => {
    const imports = importsOf('src');
    const deep = imports.filter((found) => !isEntry(found) || isInternal(found));
    const hops = imports.filter((found) => pathOf(found)?.startsWith('src/') === false);
    expect([...deep, ...hops]).toEqual([]);
  });

  it('has no folder with a name that says nothing', () => {
    const roots = [
      'src',
      'test',
      ...libraries.flatMap((library) => [`libs/${library}/src`, `libs/${library}/test`]),
    ];
    const named = roots.flatMap(foldersOf);
    expect(named).not.toEqual([]);
    expect(
      named.filter((folder) => folder.split('/').some((part) => NAMELESS_FOLDERS.includes(part))),
    ).toEqual([]);
  });
});

describe('the stores', () => {
  /** Who may have a store as its adapter is: what bounds it, and what binds it. */
  const BOUNDS = filesOf('libs/core/src/call').filter((file) => /\/bounded-[a-z]+\.ts$/.test(file));
  const BINDERS = new Set([...BOUNDS, 'libs/core/src/module/tool-loop.module.ts']);
  const PORTS = [
    'AccountStore',
    'AuditStore',
    'CallJournal',
    'CallTransactions',
    'ConversationStore',
    'DirectiveStore',
    'PendingStore',
    'PolicyStore',
    'RunLog',
    'UsageStore',
    'ToolLoopStores',
  ];
  const sources = filesOf('libs/core/src').filter(
    (file) =>
      coreFolderOf(file) !== 'contracts' && !BINDERS.has(file) && !file.endsWith('/index.ts'),
  );

  /**
   * The ports that a file injects: Nest knows them by their classes, so they are imported as
   * values; what extends one is an adapter.
   */
  function injectedIn(file: string): string[] {
    const text = readFileSync(file, 'utf8');
    const values = new Set(
      [...text.matchAll(/^import \{([^}]*)\} from/gm)].flatMap(([, names = '']) =>
        names.split(',').map((name) => name.trim()),
      ),
    );
    return PORTS.filter((port) => values.has(port) && !new RegExp(`extends ${port}\\b`).test(text));
  }

  it('reach the run by nothing but what bounds them (invariant 16)', () => {
    expect(sources).not.toEqual([]);
    expect(
      sources.flatMap((file) =>
        injectedIn(file).map((port) => `${file} injects ${port}; inject BoundedStores`),
      ),
    ).toEqual([]);
  });

  it('have a bound for every port (invariant 16)', () => {
    const ports = readFileSync('libs/core/src/contracts/stores.ts', 'utf8');
    const bounded = BOUNDS.map((file) => readFileSync(file, 'utf8')).join('\n');
    const [, declared = ''] = /abstract class ToolLoopStores \{([^}]*)\}/.exec(ports) ?? [];
    const named = [...declared.matchAll(/readonly \w+\?: (\w+);/g)].map(([, port = '']) => port);
    expect(named.toSorted()).toEqual(PORTS.filter((port) => port !== 'ToolLoopStores'));
    const isBound = (port: string): boolean =>
      new RegExp(`extends ${port} \\{|\\): ${port} (?:=>|\\{)`).test(bounded);
    expect(named.filter((port) => !isBound(port))).toEqual([]);
  });
});
