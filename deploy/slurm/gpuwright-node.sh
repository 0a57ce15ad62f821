# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# What gpuwright-healthcheck, gpuwright-prolog and gpuwright-epilog share; they read it from their own folder.
#
# A node drains nothing itself, except with PROLOG_ON_FAIL=refuse. It writes its verdict into a field of its own row in
# Slurm. gpuwright-drains on the controller reads all rows there: 50 nodes that fail at once are one question, not 50.

# Slurm gives a prolog no search path. Set SLURM_BIN below if Slurm lies elsewhere. Of the administrator's own folders,
# those in which only root can put a program; find follows a link there, and its owner's folder counts.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
for folder in /usr/local/sbin /usr/local/bin; do
    [ -z "$(find -L "$folder" -maxdepth 0 -user 0 ! -perm -o+w '(' ! -perm -g+w -o -group 0 ')' 2>/dev/null)" ] || PATH=$PATH:$folder
done
export PATH
umask 022

# These can be set in /etc/gpuwright/scheduler.conf, as lines of shell; only root may write to that file.
# Folder of Slurm's commands, such as /opt/slurm/bin; empty: the folders above
SLURM_BIN=
# Name of this node in Slurm; empty: SLURMD_NODENAME, which slurmd sets for prologs and epilogs, or the host's short name
NODE_NAME=
# Field of the node that belongs to gpuwright: Comment or Extra. gpuwright-drains needs the same (--field)
FIELD=Comment
# What UNKNOWN means: log (say so in the log and do nothing) or drain (ask as for a FAIL)
ON_UNKNOWN=log
# What the prolog does on a FAIL: start (ask, and let the job start) or refuse (drain now, and send the job elsewhere)
PROLOG_ON_FAIL=start
# Longest age of a record in seconds, such as 600; empty: as long as the record says that it holds
MAX_AGE_S=
# The record that gpu-doctor keeps
RECORD=/var/lib/gpuwright/boot-check.json
SETTINGS=/etc/gpuwright/scheduler.conf
# What was last said, so that a good node costs the controller nothing. A boot empties it.
SAID=/run/gpuwright/scheduler-said
# Longest time that one command of Slurm may take, in seconds
SLURM_SECONDS=10
# Longest reason, in characters
LONGEST=300

# shellcheck source=/dev/null
[ ! -r "$SETTINGS" ] || . "$SETTINGS"
[ -z "$SLURM_BIN" ] || PATH=$SLURM_BIN:$PATH

note() {
    logger -t gpuwright-slurm -- "$*" 2>/dev/null || echo "gpuwright-slurm: $*" >&2
}

# In:  the folder of these files ($1)
# Out: status (PASS, WARN, FAIL, UNKNOWN), words (the check and its action, or why it is unknown), boot (8 characters)
read_verdict() {
    verdict_program=$1/../gate/gpuwright-verdict
    if [ -x "$verdict_program" ]; then
        line=$("$verdict_program" --record "$RECORD" ${MAX_AGE_S:+--max-age "$MAX_AGE_S"} 2>&1)
    else
        line="UNKNOWN there is no $verdict_program"
    fi
    case $line in
        PASS | WARN) status=$line words= ;;
        "FAIL "* | "UNKNOWN "*) status=${line%% *} words=${line#* } ;;
        *) status=UNKNOWN words=$line ;;
    esac
    words=$(printf '%s' "$words" | cut -c "1-$LONGEST")
    read -r boot </proc/sys/kernel/random/boot_id
    boot=$(printf '%s' "$boot" | cut -c 1-8)
    if [ "$status" = UNKNOWN ] && [ "$ON_UNKNOWN" = drain ]; then
        status=FAIL words="unknown: $words"
    fi
}

host=$(uname -n)
node=${NODE_NAME:-${SLURMD_NODENAME:-${host%%.*}}}

# One command of Slurm for this node, within its time; its words on a failure go to the log.
update_node() {
    answer=$(timeout "$SLURM_SECONDS" scontrol update NodeName="$node" "$@" 2>&1) && return 0
    note "scontrol update could not write $*: $answer"
    return 1
}

# Tell the controller what read_verdict has found. A FAIL is told every time, since it may have been lost; all else once.
tell() {
    said=
    [ ! -r "$SAID" ] || read -r said <"$SAID"
    now="$status $boot${words:+ $words}"
    [ "$now" != "$said" ] || [ "$status" = FAIL ] || return 0
    if [ "$status" = UNKNOWN ]; then
        # Neither a reason to drain nor one to return: what was told before stays.
        note "the verdict is UNKNOWN, nothing is drained or returned: $words"
    else
        update_node "$FIELD=gpuwright $now" || return 0
        [ "$now" = "$said" ] || note "told the controller: $now"
    fi
    mkdir -p "${SAID%/*}" && printf '%s\n' "$now" >"$SAID.$$" && mv -f "$SAID.$$" "$SAID"
}
