// The schematics that `nest add`, `nest upgrade` and `nest generate` run. They change a tree of Angular's, and need no package of Angular's for that.
import { addToolloop, upgradeToolloop } from './add.mjs';
import { generate } from './generate.mjs';
import { packageManagerOf } from './project.mjs';

export const nestAdd = schematic(addToolloop);
export const upgrade = schematic(upgradeToolloop);
export const tool = schematic((files, options) => generate('tool', files, options));
export const entity = schematic((files, options) => generate('entity', files, options));
export const resource = schematic((files, options) => generate('resource', files, options));

/** A schematic of one function: it gets the files and the options, and returns what it says and whether something is to be installed. */
function schematic(work) {
  return (options) => (tree, context) => {
    const files = filesOf(tree);
    const { said, isInstall } = work(files, options);
    for (const line of said) context.logger.info(line);
    if (isInstall && options.skipInstall !== true) {
      const task = { command: 'install', quiet: true, hideOutput: false, packageManager: packageManagerOf(files), workingDirectory: '.' };
      context.addTask({ toConfiguration: () => ({ name: 'node-package', options: task }) });
    }
    return tree;
  };
}

function filesOf(tree) {
  return {
    read: (path) => tree.read(path)?.toString('utf8'),
    write: (path, text) => (tree.exists(path) ? tree.overwrite(path, text) : tree.create(path, text)),
  };
}
