import { posix } from 'node:path';
import {
  addPackages,
  addToModule,
  extensionFor,
  importPath,
  manifestIn,
  packageManagerOf,
  version,
  writeManifest,
  writeTemplate,
} from './project.mjs';

const FOLDER = 'assistant';
const range = `^${version}`;
const PACKAGES = {
  '@toolloop/console': range,
  '@toolloop/core': range,
  '@toolloop/http': range,
  '@toolloop/offline': range,
  '@toolloop/ui-stream': range,
  'class-transformer': '^0.5.1',
  'class-validator': '^0.15.1',
};

/**
 * Adds an assistant to an application: a module with the model that needs no key, a policy, a tool
 * and an entity, a controller, a test and the console. What is there already stays as it is, so
 * that it can be run again.
 */
export function addToolloop(files, { sourceRoot = 'src' }) {
  const manifest = manifestIn(files);
  const module = rootModule(files, sourceRoot);
  const js = extensionFor(manifest);
  const created = writeTemplate(files, 'assistant', `${sourceRoot}/${FOLDER}`, { js });
  const isImported = addToModule(
    files,
    module,
    'imports',
    'AssistantModule',
    importPath(module, `${sourceRoot}/${FOLDER}/assistant.module`, js),
  );
  const isInstall = addPackages(files, manifest, PACKAGES);
  addNote(files, sourceRoot);
  if (created.length === 0 && !isImported && !isInstall)
    return { said: ['Toolloop is there already. Nothing was changed.'], isInstall };
  const start = `${packageManagerOf(files)} run start:dev`;
  return {
    said: [
      `The assistant is in ${sourceRoot}/${FOLDER}. Start it with "${start}", and open the link to /console that it prints.`,
    ],
    isInstall,
  };
}

/**
 * The file of the module that the application starts with: `app.module.ts`, or what `main.ts`
 * names, as in the applications of a monorepo.
 */
function rootModule(files, sourceRoot) {
  const usual = `${sourceRoot}/app.module.ts`;
  if (files.read(usual) !== undefined) return usual;
  const main = files.read(`${sourceRoot}/main.ts`) ?? '';
  const [, name] = /NestFactory\.create\w*(?:<[^(]*>)?\(\s*(\w+)/.exec(main) ?? [];
  const [, from] =
    new RegExp(`import \\{[^}]*\\b${name}\\b[^}]*\\} from '(\\.[^']+)'`).exec(main) ?? [];
  const named = from && `${posix.join(sourceRoot, from.replace(/\.js$/, ''))}.ts`;
  if (named !== undefined && files.read(named) !== undefined) return named;
  throw new Error(
    `There is no ${usual}, and no ${sourceRoot}/main.ts that starts another module: the module of the assistant is imported there. Say which application it is with --project NAME, or where its sources are with --source-root.`,
  );
}

/** Tells coding assistants where tools are, once. */
function addNote(files, sourceRoot) {
  const notes = files.read('AGENTS.md') ?? '';
  if (notes.includes('@toolloop/core')) return;
  const note = `Tools for language models are methods with \`@LlmTool()\`, such as those in \`${sourceRoot}/${FOLDER}\`. Read \`node_modules/@toolloop/core/README.md\` before you change them.`;
  files.write(
    'AGENTS.md',
    `${notes === '' ? '' : `${notes.trimEnd()}\n\n`}## Toolloop\n\n${note}\n`,
  );
}

/** Brings every package of Toolloop to the version of this one: they are released together. */
export function upgradeToolloop(files) {
  const manifest = manifestIn(files);
  const moved = [];
  const upgraded = (ranges) =>
    ranges &&
    Object.fromEntries(
      Object.entries(ranges).map(([name, from]) => {
        if (!isOurs(name) || from === range) return [name, from];
        moved.push(`${name} ${from} → ${range}`);
        return [name, range];
      }),
    );
  const next = {
    ...manifest,
    dependencies: upgraded(manifest.dependencies),
    devDependencies: upgraded(manifest.devDependencies),
  };
  if (moved.length === 0)
    return { said: [`All packages of Toolloop are ${range}.`], isInstall: false };
  writeManifest(files, next);
  return { said: [...moved, 'Read the changelog of Toolloop for what changed.'], isInstall: true };
}

function isOurs(name) {
  return name.startsWith('@toolloop/') || name === 'toolloop';
}
