#!/usr/bin/env node
// Makes an application: `nest new` of the command line that this package brings, then
// `nest add @toolloop/core` in it.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';

const { version } = JSON.parse(readFileSync(new URL('package.json', import.meta.url), 'utf8'));
const [name, ...options] = process.argv.slice(2);

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
if (major < 22 || (major === 22 && minor < 12))
  refuse(`Toolloop needs Node.js 22.12 or newer, and this is ${process.versions.node}.`);

if (name === undefined || !/^[a-z\d][a-z\d._-]*$/.test(name))
  refuse(
    'Usage: npm create toolloop NAME, where NAME is the folder of the application, such as my-app.',
  );
const folder = resolve(name);
if (existsSync(folder))
  refuse(
    `${folder} exists. Choose another name, or run "npx toolloop init" there to add Toolloop to it.`,
  );

const manager = managerThatRuns();
const cli = createRequire(import.meta.url).resolve('@nestjs/cli/bin/nest.js');
step(
  '.',
  process.execPath,
  cli,
  'new',
  name,
  '--package-manager',
  manager,
  '--skip-install',
  '--no-observe',
  ...options,
);
addCore();
step(folder, manager, 'install');
// -s: core is there already. Its long form would reach the schematic as well, which then would not
// install what it adds.
step(
  folder,
  process.execPath,
  'node_modules/@nestjs/cli/bin/nest.js',
  'add',
  '@toolloop/core',
  '-s',
);
console.log(
  `\nThe application is in ${name}:\n\n  cd ${name}\n  ${manager} run start:dev\n\nThen open the link to the console that it prints.`,
);

function managerThatRuns() {
  const [found] = (process.env.npm_config_user_agent ?? '').split('/');
  return ['pnpm', 'yarn', 'bun'].includes(found) ? found : 'npm';
}

function addCore() {
  const file = join(folder, 'package.json');
  const manifest = JSON.parse(readFileSync(file, 'utf8'));
  const dependencies = { ...manifest.dependencies, '@toolloop/core': `^${version}` };
  writeFileSync(file, `${JSON.stringify({ ...manifest, dependencies }, null, 2)}\n`);
}

function step(cwd, command, ...args) {
  const { status } = spawnSync(command, args, {
    cwd,
    stdio: 'inherit',
    shell: process.platform === 'win32' && command === manager,
  });
  if (status !== 0) refuse(`"${[command, ...args].join(' ')}" has failed in ${resolve(cwd)}.`);
}

function refuse(message) {
  console.error(message);
  process.exit(1);
}
