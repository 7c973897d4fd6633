// The schematics that `nest add`, `nest upgrade` and `nest generate` run. They change a tree of
// Angular's, and need no package of Angular's for that.
import { addToolloop, upgradeToolloop } from './add.mjs';
import { generate } from './generate.mjs';
import { packageManagerOf } from './project.mjs';

export const nestAdd = schematic(addToolloop);
export const upgrade = schematic(upgradeToolloop);
export const tool = schematic((files, options) => generate('tool', files, options));
export const entity = schematic((files, options) => generate('entity', files, options));
export const resource = schematic((files, options) => generate('resource', files, options));

/**
 * A schematic of one function: it gets the files and the options, and returns what it says and
 * whether something is to be installed.
 */
function schematic(work) {
  return (options) => (tree, context) => {
    const files = filesOf(tree);
    const { said, isInstall } = work(files, options);
    for (const line of said) context.logger.info(line);
    if (!isInstall) return tree;
    if (options.skipInstall === true)
      context.logger.info(`Nothing was installed: run "${packageManagerOf(files)} install".`);
    else context.addTask({ toConfiguration: () => installWith(packageManagerOf(files)) });
    return tree;
  };
}

/**
 * The install of what the manifest has now. Where CI is set, pnpm and yarn refuse to bring a
 * lockfile up to date unless they are told to. What an install prints is shown where it fails: pnpm
 * writes its errors to the standard output.
 */
function installWith(packageManager) {
  const options = {
    command: 'install',
    quiet: false,
    hideOutput: true,
    packageManager,
    workingDirectory: '.',
  };
  if (packageManager === 'yarn') process.env.YARN_ENABLE_IMMUTABLE_INSTALLS = 'false';
  return {
    name: 'node-package',
    options:
      packageManager === 'pnpm' ? { ...options, packageName: '--no-frozen-lockfile' } : options,
  };
}

function filesOf(tree) {
  return {
    read: (path) => tree.read(path)?.toString('utf8'),
    write: (path, text) =>
      tree.exists(path) ? tree.overwrite(path, text) : tree.create(path, text),
  };
}
