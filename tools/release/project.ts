/**
 * The address of the repository, such as `https://github.com/OWNER/toolloop`. The `repository`,
 * `homepage` and `bugs` of every package follow from it. Packages are packed without it;
 * `npm run release -- publish` refuses until it is there.
 */
export const REPOSITORY = '';
