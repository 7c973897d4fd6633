import { onPglite } from './each-database.js';
import { isHandedOutAgain } from './lost-jobs-suite.js';

onPglite('work whose job is gone from the queue', isHandedOutAgain);
