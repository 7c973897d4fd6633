import { fitInEveryState, showFixtures } from './screens-suite.js';

fitInEveryState(showFixtures(), ['mirrored', 'narrow']);
