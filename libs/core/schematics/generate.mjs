import { posix } from 'node:path';
import {
  addPackages,
  addToModule,
  extensionFor,
  importPath,
  manifestIn,
  version,
  writeTemplate,
} from './project.mjs';

/**
 * MikroORM refuses packages of several versions, and so does npm: they have the version that is
 * there, or this one.
 */
const MIKRO_ORM = '7.2.1';

/**
 * What each kind needs beside core, what becomes of it in the nearest module, and what is left to
 * do.
 */
const KINDS = {
  tool: {
    packages: () => ({ '@toolloop/testing': `^${version}` }),
    field: 'devDependencies',
    provider: ({ Pascal }) => `${Pascal}Tools`,
    file: ({ kebab }) => `${kebab}.tools`,
    next: ({ namespace }) => `Allow it in your policy: allow: ['${namespace}__*'].`,
  },
  entity: {
    packages: () => ({}),
    next: ({ namespace, Pascal }) =>
      `Return ${Pascal} from a tool (output: ${Pascal}), and allow its own in your policy: allow: ['${namespace}_*_*'].`,
  },
  resource: {
    packages: ({ dependencies }) => {
      const orm = dependencies?.['@mikro-orm/core'] ?? MIKRO_ORM;
      return {
        '@mikro-orm/core': orm,
        '@mikro-orm/decorators': orm,
        '@mikro-orm/sql': orm,
        '@toolloop/resources': `^${version}`,
      };
    },
    next: ({ namespace, Pascal }, { dependencies }) =>
      `Import ResourceToolsModule.forFeature([${Pascal}Tools]), and allow them in your policy: allow: ['${namespace}__*']. The README of @toolloop/resources shows the modules around it. Install the driver of your database in the version of the other packages of MikroORM, such as @mikro-orm/postgresql@${dependencies?.['@mikro-orm/core'] ?? MIKRO_ORM}.`,
  },
};

/**
 * Creates the files of a tool, an entity or a resource, and provides the tool in the nearest
 * module.
 */
export function generate(
  kind,
  files,
  { name, path = '', sourceRoot = 'src', flat = false, spec = true },
) {
  const manifest = manifestIn(files);
  const { packages, field, provider, file, next } = KINDS[kind];
  const names = namesOf(name);
  const folder = posix.join(sourceRoot, path, names.folder, flat === true ? '' : names.kebab);
  const js = extensionFor(manifest);
  const created = writeTemplate(files, kind, folder, { ...names, js }, spec);
  if (created.length === 0)
    throw new Error(`${folder} has the files of a ${kind} already. Choose another name.`);
  const module = provider && nearestModule(files, folder, sourceRoot);
  if (module !== undefined)
    addToModule(
      files,
      module,
      'providers',
      provider(names),
      importPath(module, posix.join(folder, file(names)), js),
    );
  return {
    said: [next(names, manifest)],
    isInstall: addPackages(files, manifest, packages(manifest), field),
  };
}

/** The names of what is generated, of `orders/weather-report`. */
function namesOf(name) {
  if (name === undefined)
    throw new Error(
      'A name is missing: write it behind the kind, in kebab-case, such as weather-report.',
    );
  const parts = String(name).split('/');
  const kebab = (parts.pop() ?? '').replaceAll(/([a-z\d])([A-Z])/g, '$1-$2').toLowerCase();
  if (!/^[a-z][a-z\d]*(-[a-z\d]+)*$/.test(kebab) || !parts.every((part) => /^[\w-]+$/.test(part)))
    throw new Error(`"${name}" is no name: write it in kebab-case, such as weather-report.`);
  const Pascal = kebab.replaceAll(/(?:^|-)(\w)/g, (_dash, letter) => letter.toUpperCase());
  const namespace = kebab.replaceAll('-', '_');
  return {
    kebab,
    Pascal,
    namespace,
    table: `${namespace}s`,
    words: kebab.replaceAll('-', ' '),
    folder: parts.join('/'),
  };
}

/** The file of the module that is nearest above a folder. */
function nearestModule(files, folder, sourceRoot) {
  for (let place = folder; place.startsWith(sourceRoot); place = posix.dirname(place)) {
    const own = posix.join(place, `${posix.basename(place)}.module.ts`);
    if (files.read(own) !== undefined) return own;
  }
  const app = posix.join(sourceRoot, 'app.module.ts');
  return files.read(app) === undefined ? undefined : app;
}
